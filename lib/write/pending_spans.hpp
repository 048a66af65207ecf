// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/record.hpp"

namespace cep {

/// The writer's spans that wait for their times from the poller, in the order of arrival.
class PendingSpans {
  public:
    /// Limit of the metadata kept for these spans. While the GPU is stalled, spans beyond it lose their metadata.
    static constexpr std::size_t meta_limit_bytes = std::size_t{1} << 20;

    static constexpr std::uint64_t none = 0;  ///< no span's id

    struct Entry {
        Measurement span;
        std::uint64_t order = 0;  ///< 1 for the first span, and so on; 0: a free place
        std::uint32_t previous = 0;
        std::uint32_t next = 0;
    };

    PendingSpans() { entries_.emplace_back(); }  // place 0 is both ends of the list

    /// Returns the span's id. `kept_meta` is false if there was no room for the metadata. If it throws, the span is not
    /// added.
    [[nodiscard]] std::uint64_t add(const Measurement& span, bool& kept_meta) {
        kept_meta = meta_bytes_ + span.meta.size() <= meta_limit_bytes;
        std::string text(kept_meta ? span.meta : std::string_view{});
        if (free_ == 0) grow();
        const std::uint32_t place = free_;
        Entry& entry = entries_[place];
        free_ = entry.next;
        meta_bytes_ += text.size();
        entry.span = {span.record, span.attributes, std::move(text)};
        entry.order = ++last_order_;
        link(place, entries_[0].previous);
        return place;
    }

    [[nodiscard]] const Entry& at(std::uint64_t id) const noexcept { return entries_[id]; }

    void remove(std::uint64_t id) noexcept {
        Entry& entry = entries_[id];
        meta_bytes_ -= entry.span.meta.size();
        entry.span.meta = {};
        entry.order = 0;
        entries_[entry.previous].next = entry.next;
        entries_[entry.next].previous = entry.previous;
        entry.next = free_;
        free_ = static_cast<std::uint32_t>(id);
    }

    [[nodiscard]] bool empty() const noexcept { return entries_[0].next == 0; }
    [[nodiscard]] std::uint64_t first() const noexcept { return entries_[0].next; }
    [[nodiscard]] std::uint64_t last_order() const noexcept { return last_order_; }
    /// Whether all spans up to that order have been removed.
    [[nodiscard]] bool settled(std::uint64_t order) const noexcept {
        return empty() || entries_[entries_[0].next].order > order;
    }

    template <class Visit>
    void for_each(Visit visit) const {
        for (std::uint32_t place = entries_[0].next; place != 0; place = entries_[place].next) visit(entries_[place]);
    }

  private:
    void grow() {
        entries_.emplace_back();
        free_ = static_cast<std::uint32_t>(entries_.size() - 1);
        entries_[free_].next = 0;
    }
    void link(std::uint32_t place, std::uint32_t previous) noexcept {
        entries_[place].previous = previous;
        entries_[place].next = 0;
        entries_[previous].next = place;
        entries_[0].previous = place;
    }

    std::vector<Entry> entries_;
    std::uint32_t free_ = 0;  ///< first of the free places, which are linked by `next`
    std::uint64_t last_order_ = 0;
    std::size_t meta_bytes_ = 0;
};

}  // namespace cep
