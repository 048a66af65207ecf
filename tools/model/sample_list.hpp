// SPDX-License-Identifier: Apache-2.0
//
// Sample list: the samples of a phase in the order in which they came, in chunks that stay where they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "stats/interval_set.hpp"

namespace cep::tool {

/// One span.
struct Sample {
    static constexpr std::int64_t no_start = std::numeric_limits<std::int64_t>::min();
    static constexpr std::uint32_t max_depth = 15;
    static constexpr std::uint32_t max_stream = 1023;
    static constexpr std::uint32_t max_seq = (1U << 17) - 1;
    static constexpr std::uint32_t flag = 1U << 17;

    /// What is kept of a key until collectives are numbered. Half is enough, as keys are compared within one step only:
    /// of n collectives in a step, any two have the same with a chance of n² / 2^33. With 1,000 that is one step in
    /// 8,600, with 10,000 one in 86; in that step, one of the two counts a wait that is too long.
    [[nodiscard]] static std::uint32_t half_of(std::uint64_t collective_key) {
        return std::max(1U, static_cast<std::uint32_t>(collective_key));
    }

    /// With a start only.
    [[nodiscard]] Interval interval() const {
        return {start_ns, start_ns + static_cast<std::int64_t>(duration_ms * 1e6 + 0.5)};
    }
    [[nodiscard]] bool has_start() const { return start_ns != no_start; }
    [[nodiscard]] std::uint32_t seq() const { return attributes & max_seq; }
    [[nodiscard]] std::uint32_t stream() const { return attributes >> 18 & max_stream; }
    [[nodiscard]] std::uint32_t depth() const { return attributes >> 28; }
    /// For a sample with a start: the span is as long as the host's work.
    [[nodiscard]] bool is_host_paced() const { return (attributes & flag) != 0; }
    /// For a sample without a start: its row stands behind that of the step span.
    [[nodiscard]] bool is_behind_step() const { return (attributes & flag) != 0; }
    [[nodiscard]] bool is_top_level() const { return depth() == 0; }

    double duration_ms;
    std::int64_t start_ns;  // no_start where the row does not say
    float lag_ms;           // NaN where the row does not say
    /// Its number, see Collectives; 0 where it has none. While files are read half of its key; to number collectives
    /// changes nothing else of a job.
    mutable std::uint32_t collective;
    std::uint32_t step_index;  // into RunSeries::steps
    std::uint32_t attributes;  // depth, stream, a flag and seq
};
static_assert(sizeof(Sample) == 32);  // there may be tens of millions

class SampleList {
  public:
    class const_iterator;

    static constexpr std::size_t chunk_samples = 2048;

    SampleList() = default;
    SampleList(std::initializer_list<Sample> samples) {
        for (const Sample& sample : samples) push_back(sample);
    }

    void push_back(const Sample& sample) {
        if (chunks_.empty() || chunks_.back().size() == chunk_samples) [[unlikely]]
            chunks_.emplace_back().reserve(chunks_.size() > 1 ? chunk_samples : 4);
        chunks_.back().push_back(sample);
    }
    /// Returns how many there were. Asks once for each sample, in their order.
    template <typename IsGone>
    std::size_t erase_if(IsGone is_gone);
    /// No samples follow: gives back what they would have had for room.
    void seal() {
        if (!chunks_.empty()) chunks_.back().shrink_to_fit();
        chunks_.shrink_to_fit();
    }

    [[nodiscard]] bool empty() const { return chunks_.empty(); }
    [[nodiscard]] std::size_t size() const {
        return chunks_.empty() ? 0 : (chunks_.size() - 1) * chunk_samples + chunks_.back().size();
    }
    [[nodiscard]] const Sample& operator[](std::size_t i) const {
        return chunks_[i / chunk_samples][i % chunk_samples];
    }
    [[nodiscard]] Sample& operator[](std::size_t i) { return chunks_[i / chunk_samples][i % chunk_samples]; }
    [[nodiscard]] const Sample& back() const { return chunks_.back().back(); }
    [[nodiscard]] const_iterator begin() const;
    [[nodiscard]] std::default_sentinel_t end() const { return {}; }

    /// None of them is empty; all but the last have chunk_samples.
    [[nodiscard]] std::size_t chunks() const { return chunks_.size(); }
    [[nodiscard]] std::span<const Sample> chunk(std::size_t i) const { return chunks_[i]; }

  private:
    std::vector<std::vector<Sample>> chunks_;  // the last may have room for fewer
};

class SampleList::const_iterator {
  public:
    [[nodiscard]] const Sample& operator*() const { return *at_; }
    /// False at the end.
    bool advance() {
        if (++at_ != end_) [[likely]]
            return true;
        enter(number_ + 1);
        return at_ != end_;
    }
    const_iterator& operator++() {
        advance();
        return *this;
    }
    /// Its sample is the i-th of the list.
    void seek(std::size_t i) {
        enter(i / chunk_samples);
        if (at_ != end_) at_ += i % chunk_samples;
    }
    /// That i, before the end.
    [[nodiscard]] std::size_t index() const {
        return number_ * chunk_samples + static_cast<std::size_t>(at_ - list_->chunk(number_).data());
    }
    [[nodiscard]] friend bool operator==(const const_iterator& i, std::default_sentinel_t) { return i.at_ == i.end_; }

  private:
    friend class SampleList;
    explicit const_iterator(const SampleList* list) : list_(list) { enter(0); }
    void enter(std::size_t number) {
        number_ = number;
        const std::span<const Sample> chunk =
            number < list_->chunks() ? list_->chunk(number) : std::span<const Sample>();
        at_ = chunk.data();
        end_ = at_ + chunk.size();
    }

    const SampleList* list_;
    std::size_t number_ = 0;
    const Sample* at_ = nullptr;
    const Sample* end_ = nullptr;
};

inline SampleList::const_iterator SampleList::begin() const {
    return const_iterator(this);
}

template <typename IsGone>
std::size_t SampleList::erase_if(IsGone is_gone) {
    const std::size_t before = size();
    std::size_t kept = 0;
    for (const Sample& sample : *this)
        if (!is_gone(sample)) (*this)[kept++] = sample;
    if (kept == before) return 0;
    chunks_.resize((kept + chunk_samples - 1) / chunk_samples);
    if (!chunks_.empty()) {
        const std::size_t in_last = kept - (chunks_.size() - 1) * chunk_samples;
        chunks_.back().erase(chunks_.back().begin() + static_cast<std::ptrdiff_t>(in_last), chunks_.back().end());
    }
    return before - kept;
}

}  // namespace cep::tool
