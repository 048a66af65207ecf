// SPDX-License-Identifier: Apache-2.0
//
// Sample list: the samples of a phase in the order in which they came, in chunks of columns.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "model/sample.hpp"

namespace cep::tool {

/// Where samples that lie side by side are. There may be tens of millions, of which each byte costs time: there is no
/// column for what follows from the rest.
struct SampleColumns {
    double* duration_ms = nullptr;
    std::int64_t* start_ns = nullptr;     // without: Sample::no_start
    float* lag_ms = nullptr;              // without: NaN
    std::uint32_t* collective = nullptr;  // without: 0
    std::uint32_t* step_index = nullptr;  // without: one more than that of the sample before
    std::uint32_t* place = nullptr;       // this one and those below, without: that of the first sample of the list
    std::uint32_t* channel = nullptr;
    std::int64_t* bytes = nullptr;
};

/// What all samples of a list have in common, unless there is a column of it.
struct SampleConstants {
    std::uint32_t place = 0;
    std::uint32_t channel = 0;
    std::int64_t bytes = 0;
};

template <typename Value>
struct SampleColumn {
    Value* SampleColumns::*values;
    Value Sample::*member;
};
/// The wide ones first, so that all are aligned where they lie one behind the other.
inline constexpr std::tuple sample_columns = {
    SampleColumn<double>{&SampleColumns::duration_ms, &Sample::duration_ms},
    SampleColumn<std::int64_t>{&SampleColumns::start_ns, &Sample::start_ns},
    SampleColumn<std::int64_t>{&SampleColumns::bytes, &Sample::bytes},
    SampleColumn<float>{&SampleColumns::lag_ms, &Sample::lag_ms},
    SampleColumn<std::uint32_t>{&SampleColumns::collective, &Sample::collective},
    SampleColumn<std::uint32_t>{&SampleColumns::step_index, &Sample::step_index},
    SampleColumn<std::uint32_t>{&SampleColumns::place, &Sample::place},
    SampleColumn<std::uint32_t>{&SampleColumns::channel, &Sample::channel},
};

/// Some samples of a list, one after the other. Valid as long as the list does not change.
class SampleChunk {
  public:
    SampleChunk() = default;
    SampleChunk(const SampleColumns& columns, std::size_t size, std::uint32_t first_step_index,
                const SampleConstants& constants)
        : columns_(columns), size_(size), first_step_index_(first_step_index), constants_(constants) {}

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::span<const double> durations_ms() const { return {columns_.duration_ms, size_}; }
    /// Whether place() is not the same for all.
    [[nodiscard]] bool has_places() const { return columns_.place != nullptr; }
    [[nodiscard]] std::uint32_t place(std::size_t i) const {
        return has_places() ? columns_.place[i] : constants_.place;
    }
    [[nodiscard]] std::uint32_t collective(std::size_t i) const {
        return columns_.collective == nullptr ? 0 : columns_.collective[i];
    }
    /// Of a sample that has one.
    void set_collective(std::size_t i, std::uint32_t collective) const {
        if (columns_.collective != nullptr) columns_.collective[i] = collective;
    }
    [[nodiscard]] std::uint32_t step_index(std::size_t i) const {
        const bool is_counted = columns_.step_index == nullptr;
        return is_counted ? first_step_index_ + static_cast<std::uint32_t>(i) : columns_.step_index[i];
    }
    [[nodiscard]] Sample operator[](std::size_t i) const {
        return {columns_.duration_ms[i],
                columns_.start_ns == nullptr ? Sample::no_start : columns_.start_ns[i],
                columns_.lag_ms == nullptr ? std::numeric_limits<float>::quiet_NaN() : columns_.lag_ms[i],
                collective(i),
                step_index(i),
                place(i),
                columns_.channel == nullptr ? constants_.channel : columns_.channel[i],
                columns_.bytes == nullptr ? constants_.bytes : columns_.bytes[i]};
    }

  private:
    SampleColumns columns_;
    std::size_t size_ = 0;
    std::uint32_t first_step_index_ = 0;
    SampleConstants constants_;
};

/// In growth, what has filled a chunk is never copied again.
class SampleList {
  public:
    class const_iterator;

    static constexpr std::size_t chunk_samples = 2048;

    SampleList() = default;
    SampleList(std::initializer_list<Sample> samples) {
        for (const Sample& sample : samples) push_back(sample);
    }
    SampleList(const SampleList& other) { append(other, other.size()); }
    SampleList(SampleList&& other) noexcept { swap(other); }
    SampleList& operator=(SampleList other) noexcept {
        swap(other);
        return *this;
    }
    ~SampleList() { release(); }

    void push_back(const Sample& sample) {
        if (count_ == capacity_ || !store(sample)) [[unlikely]]
            store_in_new_room(sample);
    }
    /// Returns how many there were. Asks once for each sample, in their order.
    template <typename IsGone>
    std::size_t erase_if(IsGone is_gone);
    /// No samples follow: gives back what they would have had for room.
    void seal();

    [[nodiscard]] bool empty() const { return count_ == 0 && full_.empty(); }
    [[nodiscard]] std::size_t size() const { return full_.size() * chunk_samples + count_; }
    [[nodiscard]] Sample operator[](std::size_t i) const { return chunk(i / chunk_samples)[i % chunk_samples]; }
    [[nodiscard]] std::uint32_t step_index(std::size_t i) const {
        return chunk(i / chunk_samples).step_index(i % chunk_samples);
    }
    [[nodiscard]] Sample back() const { return last_chunk()[count_ - 1]; }
    [[nodiscard]] std::uint32_t last_step_index() const { return last_chunk().step_index(count_ - 1); }
    [[nodiscard]] const_iterator begin() const;
    [[nodiscard]] std::default_sentinel_t end() const { return {}; }

    /// None of them is empty; all but the last have chunk_samples.
    [[nodiscard]] std::size_t chunks() const { return full_.size() + (count_ > 0); }
    [[nodiscard]] SampleChunk chunk(std::size_t i) const {
        if (i == full_.size()) return last_chunk();
        const std::size_t samples_behind = (full_.size() - i) * chunk_samples;
        return {full_[i], chunk_samples, first_step_index_ - static_cast<std::uint32_t>(samples_behind), constants_};
    }

  private:
    using ColumnSet = unsigned;  // a bit for each of sample_columns

    bool store(const Sample& sample);
    template <typename Value>
    bool store_in(Value* column, Value value, Value plain) {
        if (column == nullptr) return is_same(value, plain);
        column[count_] = value;
        return true;
    }
    void store_in_new_room(Sample sample);  // by value, so that push_back() needs it in registers only
    void append(const SampleList& other, std::size_t count);
    void swap(SampleList& other) noexcept {
        std::swap(last_, other.last_);
        std::swap(count_, other.count_);
        std::swap(capacity_, other.capacity_);
        std::swap(first_step_index_, other.first_step_index_);
        std::swap(constants_, other.constants_);
        std::swap(full_, other.full_);
    }
    [[nodiscard]] SampleChunk last_chunk() const { return {last_, count_, first_step_index_, constants_}; }
    /// The next sample without columns but for its duration.
    [[nodiscard]] Sample plain_sample() const {
        const float no_lag = std::numeric_limits<float>::quiet_NaN();
        return {0,
                Sample::no_start,
                no_lag,
                0,
                first_step_index_ + count_,
                constants_.place,
                constants_.channel,
                constants_.bytes};
    }
    template <typename Value>
    static bool is_same(Value a, Value b) {
        return a == b;
    }
    static bool is_same(float lag_ms, float) { return std::isnan(lag_ms); }  // a plain sample has none
    [[nodiscard]] ColumnSet needed_for(const Sample& sample) const;
    void move_last(std::size_t capacity, ColumnSet columns);
    void release();

    // The last chunk may have room for fewer than the others.
    SampleColumns last_;
    std::uint32_t count_ = 0;  // in the last chunk
    std::uint32_t capacity_ = 0;
    std::uint32_t first_step_index_ = 0;  // of the last chunk, where steps have no column
    SampleConstants constants_;
    std::vector<SampleColumns> full_;  // the chunks before
};

class SampleList::const_iterator {
  public:
    [[nodiscard]] Sample operator*() const { return chunk_[at_]; }
    const_iterator& operator++() {
        if (++at_ == chunk_.size()) [[unlikely]]
            enter(number_ + 1);
        return *this;
    }
    [[nodiscard]] friend bool operator==(const const_iterator& i, std::default_sentinel_t) {
        return i.at_ == i.chunk_.size();
    }

  private:
    friend class SampleList;
    explicit const_iterator(const SampleList* list) : list_(list) { enter(0); }
    void enter(std::size_t number) {
        number_ = number;
        chunk_ = number < list_->chunks() ? list_->chunk(number) : SampleChunk();
        at_ = 0;
    }

    const SampleList* list_;
    SampleChunk chunk_;  // empty behind the last
    std::size_t number_ = 0;
    std::size_t at_ = 0;
};

inline SampleList::const_iterator SampleList::begin() const {
    return const_iterator(this);
}

/// False, and nothing is stored, if a column is missing.
inline bool SampleList::store(const Sample& sample) {
    const Sample plain = plain_sample();
    const bool stored = store_in(last_.start_ns, sample.start_ns, plain.start_ns) &&
                        store_in(last_.lag_ms, sample.lag_ms, plain.lag_ms) &&
                        store_in(last_.collective, sample.collective, plain.collective) &&
                        store_in(last_.step_index, sample.step_index, plain.step_index) &&
                        store_in(last_.place, sample.place, plain.place) &&
                        store_in(last_.channel, sample.channel, plain.channel) &&
                        store_in(last_.bytes, sample.bytes, plain.bytes);
    if (stored) last_.duration_ms[count_++] = sample.duration_ms;
    return stored;
}

template <typename IsGone>
std::size_t SampleList::erase_if(IsGone is_gone) {
    SampleList kept;
    std::size_t asked = 0;
    std::size_t gone = 0;
    for (const Sample sample : *this) {
        if (is_gone(sample)) {
            if (gone++ == 0) kept.append(*this, asked);
        } else if (gone > 0) {
            kept.push_back(sample);
        }
        ++asked;
    }
    if (gone > 0) swap(kept);
    return gone;
}

}  // namespace cep::tool
