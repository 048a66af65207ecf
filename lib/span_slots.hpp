// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "record.hpp"

namespace cep {

/// A span that has begun and not ended. The thread that began it fills it; whoever ends it claims it first.
/// What the resolver may read while the span is open (for `open` rows) is atomic, the rest belongs to the claimant.
struct SpanSlot {
    static constexpr std::uint64_t open_bit = 1;

    std::atomic<std::uint64_t> state{0};  ///< generation << 1 | open
    std::atomic<cep_region*> region{nullptr};
    std::atomic<std::int64_t> step{0};
    std::atomic<std::int64_t> begin_host_ns{0};
    std::atomic<std::uint32_t> seq{0};
    std::atomic<std::uint16_t> depth{0};
    std::atomic<bool> on_device{false};
    Stamp begin;
    Attributes attributes;
    std::unique_ptr<char[]> meta;
    std::uint32_t meta_capacity = 0;
    std::uint32_t meta_bytes = 0;

    [[nodiscard]] std::string_view meta_text() const noexcept { return {meta.get(), meta_bytes}; }

    /// Keeps a copy of the metadata; the buffer is kept for the next span of this slot. False without memory.
    [[nodiscard]] bool set_meta(std::string_view text) noexcept {
        if (text.size() > meta_capacity) {
            meta.reset(new (std::nothrow) char[text.size()]);
            meta_capacity = meta == nullptr ? 0 : static_cast<std::uint32_t>(text.size());
            if (meta == nullptr) return false;
        }
        text.copy(meta.get(), text.size());
        meta_bytes = static_cast<std::uint32_t>(text.size());
        return true;
    }
};

/// The facts of an open span, as the resolver saw them.
struct OpenSpan {
    const cep_region* region;
    std::int64_t step;
    std::int64_t begin_host_ns;
    std::uint32_t seq;
    std::uint16_t depth;
    bool on_device;
};

/// The open spans of one thread: only that thread claims slots; any thread ends them.
class SpanSlots {
  public:
    static constexpr std::size_t block_slots = 64;
    static constexpr std::size_t max_blocks = 16;
    static constexpr std::size_t max_slots = block_slots * max_blocks;

    SpanSlots() noexcept = default;
    SpanSlots(const SpanSlots&) = delete;
    SpanSlots& operator=(const SpanSlots&) = delete;
    ~SpanSlots() {
        for (auto& block : blocks_) std::unique_ptr<Block>(block.load(std::memory_order_relaxed)).reset();
    }

    /// Owner. Index of a slot that is now this thread's to fill, or −1. Allocates a block when the others are in use.
    [[nodiscard]] int claim() noexcept {
        if (kept_count_ > 0) return kept_[--kept_count_];
        for (std::size_t b = 0; b < max_blocks; ++b) {
            Block* block = blocks_[b].load(std::memory_order_relaxed);
            if (block == nullptr) {
                block = new (std::nothrow) Block;
                if (block == nullptr) return -1;
                blocks_[b].store(block, std::memory_order_release);
            }
            const std::uint64_t free = block->free.load(std::memory_order_acquire);
            if (free == 0) continue;
            const int bit = std::countr_zero(free);
            block->free.fetch_and(~(std::uint64_t{1} << bit), std::memory_order_acquire);
            return static_cast<int>(b * block_slots) + bit;
        }
        return -1;
    }

    [[nodiscard]] SpanSlot& at(std::size_t index) noexcept {
        return blocks_[index / block_slots].load(std::memory_order_acquire)->slots[index % block_slots];
    }

    /// Any thread. The slot of that index if it can exist, for a handle that came from outside.
    [[nodiscard]] SpanSlot* find(std::size_t index) noexcept {
        if (index >= max_slots) return nullptr;
        Block* block = blocks_[index / block_slots].load(std::memory_order_acquire);
        return block == nullptr ? nullptr : &block->slots[index % block_slots];
    }

    /// Owner. Publishes a filled slot; returns its generation.
    std::uint32_t publish(std::size_t index) noexcept {
        SpanSlot& slot = at(index);
        const std::uint64_t generation = slot.state.load(std::memory_order_relaxed) >> 1;
        slot.state.store(generation << 1 | SpanSlot::open_bit, std::memory_order_release);
        return static_cast<std::uint32_t>(generation);
    }

    /// Any thread. True for the one caller that may end the span of that generation.
    [[nodiscard]] static bool take(SpanSlot& slot, std::uint32_t generation) noexcept {
        std::uint64_t now = slot.state.load(std::memory_order_acquire);
        if (static_cast<std::uint32_t>(now >> 1) != generation || (now & SpanSlot::open_bit) == 0) return false;
        return slot.state.compare_exchange_strong(now, ((now >> 1) + 1) << 1, std::memory_order_acq_rel);
    }

    [[nodiscard]] static bool is_open(const SpanSlot& slot, std::uint32_t generation) noexcept {
        const std::uint64_t now = slot.state.load(std::memory_order_acquire);
        return static_cast<std::uint32_t>(now >> 1) == generation && (now & SpanSlot::open_bit) != 0;
    }

    /// Owner, after a claim or having taken the span: the slot, still warm, is the next to be claimed.
    void keep(std::size_t index) noexcept {
        if (kept_count_ < kept_.size())
            kept_[kept_count_++] = static_cast<std::uint16_t>(index);
        else
            release(index);
    }

    /// Any thread that took the span: the slot can be claimed again.
    void release(std::size_t index) noexcept {
        Block* block = blocks_[index / block_slots].load(std::memory_order_relaxed);
        block->free.fetch_or(std::uint64_t{1} << (index % block_slots), std::memory_order_release);
    }

    /// Once nobody records any more: calls `visit(SpanSlot&)` for each span still open.
    template <class Visit>
    void visit_left_open(Visit visit) noexcept {
        for (auto& pointer : blocks_)
            if (Block* block = pointer.load(std::memory_order_acquire))
                for (SpanSlot& slot : block->slots)
                    if ((slot.state.load(std::memory_order_acquire) & SpanSlot::open_bit) != 0) visit(slot);
    }

    /// Any thread: calls `visit(OpenSpan)` for each span open now.
    template <class Visit>
    void visit_open(Visit visit) const {
        for (const auto& pointer : blocks_) {
            const Block* block = pointer.load(std::memory_order_acquire);
            if (block == nullptr) continue;
            for (const SpanSlot& slot : block->slots) {
                const std::uint64_t before = slot.state.load(std::memory_order_acquire);
                if ((before & SpanSlot::open_bit) == 0) continue;
                // Loads with acquire: a value of the slot's next life is seen only with that life's state.
                const OpenSpan span{
                    slot.region.load(std::memory_order_acquire),        slot.step.load(std::memory_order_acquire),
                    slot.begin_host_ns.load(std::memory_order_acquire), slot.seq.load(std::memory_order_acquire),
                    slot.depth.load(std::memory_order_acquire),         slot.on_device.load(std::memory_order_acquire)};
                if (slot.state.load(std::memory_order_relaxed) == before) visit(span);
            }
        }
    }

  private:
    struct Block {
        std::atomic<std::uint64_t> free{~std::uint64_t{0}};
        std::array<SpanSlot, block_slots> slots;
    };

    std::array<std::atomic<Block*>, max_blocks> blocks_{};
    std::array<std::uint16_t, block_slots> kept_{};  ///< free, but not marked so: the owner's alone
    std::size_t kept_count_ = 0;
};

/// The spans open on one thread, innermost last. Spans that other threads have ended are passed over.
class SpanStack {
  public:
    struct Entry {
        std::uint16_t slot;
        std::uint32_t generation;
    };

    void clear() noexcept { size_ = 0; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

    /// The number of open spans, once those on top that have ended elsewhere are gone.
    [[nodiscard]] std::uint16_t depth(SpanSlots& slots) noexcept {
        while (size_ > 0 && !SpanSlots::is_open(slots.at(entries_[size_ - 1].slot), entries_[size_ - 1].generation))
            --size_;
        return static_cast<std::uint16_t>(size_);
    }

    void push(SpanSlots& slots, Entry entry) noexcept {
        if (size_ == entries_.size()) compact(slots);
        entries_[size_++] = entry;
    }

    /// Removes the entry of that slot and generation, wherever it is.
    void remove(std::uint16_t slot, std::uint32_t generation) noexcept {
        for (std::size_t i = size_; i-- > 0;) {
            if (entries_[i].slot != slot || entries_[i].generation != generation) continue;
            for (; i + 1 < size_; ++i) entries_[i] = entries_[i + 1];
            --size_;
            return;
        }
    }

    /// The innermost open span, of `region` if it is not null; null if there is none.
    [[nodiscard]] const Entry* innermost(SpanSlots& slots, const cep_region* region) const noexcept {
        for (std::size_t i = size_; i-- > 0;) {
            SpanSlot& slot = slots.at(entries_[i].slot);
            if (!SpanSlots::is_open(slot, entries_[i].generation)) continue;
            if (region == nullptr || slot.region.load(std::memory_order_relaxed) == region) return &entries_[i];
        }
        return nullptr;
    }

  private:
    /// Spans ended elsewhere can lie below open ones. No more than max_slots − 1 others are open at a push.
    void compact(SpanSlots& slots) noexcept {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < size_; ++i)
            if (SpanSlots::is_open(slots.at(entries_[i].slot), entries_[i].generation)) entries_[kept++] = entries_[i];
        size_ = kept;
    }

    std::array<Entry, SpanSlots::max_slots> entries_;
    std::size_t size_ = 0;
};

}  // namespace cep
