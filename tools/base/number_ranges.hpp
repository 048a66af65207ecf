// SPDX-License-Identifier: Apache-2.0
//
// Number ranges: a set of integers as ranges of neighbours, so that a range takes as little memory as a number.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

namespace cep::tool {

class NumberRanges {
  public:
    NumberRanges() = default;
    NumberRanges(std::initializer_list<std::int64_t> numbers) {
        for (const std::int64_t number : numbers) insert(number);
    }

    void insert(std::int64_t number) { insert(number, number); }
    /// All from `first` to `last`, which is not before it.
    void insert(std::int64_t first, std::int64_t last);
    void merge(const NumberRanges& other);

    [[nodiscard]] bool contains(std::int64_t number) const;
    [[nodiscard]] bool empty() const { return last_of_.empty(); }
    /// How many numbers; of all 2^64 of them, one less.
    [[nodiscard]] std::uint64_t size() const { return size_; }
    /// For a set that is not empty.
    [[nodiscard]] std::int64_t highest() const { return last_of_.rbegin()->second; }
    /// First and last of each range, ascending; no two touch.
    [[nodiscard]] const std::map<std::int64_t, std::int64_t>& ranges() const { return last_of_; }
    /// The numbers one by one, ascending.
    [[nodiscard]] std::vector<std::int64_t> numbers() const;

    friend bool operator==(const NumberRanges&, const NumberRanges&) = default;

  private:
    std::map<std::int64_t, std::int64_t> last_of_;  // by the first
    std::uint64_t size_ = 0;
};

}  // namespace cep::tool
