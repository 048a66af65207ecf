// SPDX-License-Identifier: Apache-2.0
//
// Sample list: the samples of a phase in the order in which they came, in chunks that stay where they are.
#pragma once

#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "sample.hpp"

namespace cep::analysis {

/// As a vector, but for samples that are kept: in growth, what has filled a chunk is never copied again.
class SampleList {
  public:
    class const_iterator;
    using value_type = Sample;
    using iterator = const_iterator;

    static constexpr std::size_t chunk_samples = 2048;

    SampleList() = default;
    SampleList(std::initializer_list<Sample> samples) { append(samples); }
    SampleList(const SampleList& other) { append(other); }
    SampleList(SampleList&& other) noexcept { swap(other); }
    SampleList& operator=(SampleList other) noexcept {
        swap(other);
        return *this;
    }
    ~SampleList() { release(); }

    void push_back(const Sample& sample) {
        if (next_ == end_) grow();
        *next_++ = sample;
    }
    /// Returns how many there were.
    template <typename IsGone>
    std::size_t erase_if(IsGone is_gone);
    /// No samples follow: gives back what they would have had for room.
    void seal();

    [[nodiscard]] bool empty() const { return next_ == last_; }
    [[nodiscard]] std::size_t size() const {
        return full_.size() * chunk_samples + static_cast<std::size_t>(next_ - last_);
    }
    [[nodiscard]] const Sample& operator[](std::size_t i) const { return chunk(i / chunk_samples)[i % chunk_samples]; }
    [[nodiscard]] const Sample& back() const { return next_[-1]; }
    [[nodiscard]] const_iterator begin() const;
    [[nodiscard]] const_iterator end() const;

  private:
    template <typename Samples>
    void append(const Samples& samples) {
        for (const Sample& sample : samples) push_back(sample);
    }
    void swap(SampleList& other) noexcept {
        std::swap(last_, other.last_);
        std::swap(next_, other.next_);
        std::swap(end_, other.end_);
        std::swap(full_, other.full_);
    }
    [[nodiscard]] Sample* chunk(std::size_t i) const { return i < full_.size() ? full_[i] : last_; }
    void grow();
    void shrink_to(std::size_t samples);
    void set_last(Sample* chunk, std::size_t samples, std::size_t capacity);
    void release();

    // The last chunk may have room for fewer than the others.
    Sample* last_ = nullptr;
    Sample* next_ = nullptr;  // behind the last sample, which is always in the last chunk
    Sample* end_ = nullptr;
    std::vector<Sample*> full_;  // the chunks before
};

class SampleList::const_iterator {
  public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = Sample;
    using difference_type = std::ptrdiff_t;
    using pointer = const Sample*;
    using reference = const Sample&;

    const_iterator() = default;

    [[nodiscard]] reference operator*() const { return *at_; }
    [[nodiscard]] pointer operator->() const { return at_; }
    [[nodiscard]] reference operator[](difference_type n) const { return *(*this + n); }

    const_iterator& operator++() {
        ++at_;
        if (++index_ % chunk_samples == 0) [[unlikely]]
            find();
        return *this;
    }
    const_iterator& operator--() { return *this -= 1; }
    const_iterator operator++(int) {
        const const_iterator before = *this;
        ++*this;
        return before;
    }
    const_iterator operator--(int) {
        const const_iterator before = *this;
        --*this;
        return before;
    }
    const_iterator& operator+=(difference_type n) {
        index_ += static_cast<std::size_t>(n);
        find();
        return *this;
    }
    const_iterator& operator-=(difference_type n) { return *this += -n; }
    [[nodiscard]] friend const_iterator operator+(const_iterator i, difference_type n) { return i += n; }
    [[nodiscard]] friend const_iterator operator+(difference_type n, const_iterator i) { return i += n; }
    [[nodiscard]] friend const_iterator operator-(const_iterator i, difference_type n) { return i -= n; }
    [[nodiscard]] friend difference_type operator-(const const_iterator& a, const const_iterator& b) {
        return static_cast<difference_type>(a.index_) - static_cast<difference_type>(b.index_);
    }
    [[nodiscard]] friend bool operator==(const const_iterator& a, const const_iterator& b) {
        return a.index_ == b.index_;
    }
    [[nodiscard]] friend std::strong_ordering operator<=>(const const_iterator& a, const const_iterator& b) {
        return a.index_ <=> b.index_;
    }

  private:
    friend class SampleList;
    const_iterator(const SampleList* list, std::size_t index) : list_(list), index_(index) { find(); }

    // Behind the last sample of a full list there is no chunk, and nothing is read.
    void find() {
        const std::size_t chunk = index_ / chunk_samples;
        at_ = chunk > list_->full_.size() ? nullptr : list_->chunk(chunk) + index_ % chunk_samples;
    }

    const Sample* at_ = nullptr;
    const SampleList* list_ = nullptr;
    std::size_t index_ = 0;
};

inline SampleList::const_iterator SampleList::begin() const {
    return {this, 0};
}

inline SampleList::const_iterator SampleList::end() const {
    return {this, size()};
}

template <typename IsGone>
std::size_t SampleList::erase_if(IsGone is_gone) {
    std::size_t kept = 0;
    std::size_t gone = 0;
    for (const Sample& sample : *this) {
        if (is_gone(sample)) {
            ++gone;
            continue;
        }
        if (gone > 0) chunk(kept / chunk_samples)[kept % chunk_samples] = sample;
        ++kept;
    }
    if (gone > 0) shrink_to(kept);
    return gone;
}

}  // namespace cep::analysis
