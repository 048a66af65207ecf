// SPDX-License-Identifier: Apache-2.0
#include "base/number_ranges.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace cep::tool {
namespace {

std::uint64_t length_of(std::int64_t first, std::int64_t last) {
    const std::uint64_t more = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
    return more == std::numeric_limits<std::uint64_t>::max() ? more : more + 1;
}

}  // namespace

void NumberRanges::insert(std::int64_t first, std::int64_t last) {
    constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
    auto next = last_of_.upper_bound(first);
    if (next != last_of_.begin()) {
        const auto before = std::prev(next);
        if (before->second >= last) return;
        if (before->second >= first || before->second + 1 == first) {
            first = before->first;
            next = before;
        }
    }
    while (next != last_of_.end() && (last == highest || next->first <= last + 1)) {
        last = std::max(last, next->second);
        size_ -= length_of(next->first, next->second);
        next = last_of_.erase(next);
    }
    last_of_.emplace_hint(next, first, last);
    size_ += length_of(first, last);
}

void NumberRanges::merge(const NumberRanges& other) {
    for (const auto& [first, last] : other.last_of_) insert(first, last);
}

bool NumberRanges::contains(std::int64_t number) const {
    const auto behind = last_of_.upper_bound(number);
    return behind != last_of_.begin() && std::prev(behind)->second >= number;
}

std::vector<std::int64_t> NumberRanges::numbers() const {
    std::vector<std::int64_t> numbers;
    numbers.reserve(size_);
    for (const auto& [first, last] : last_of_) {
        for (std::int64_t number = first; number < last; ++number) numbers.push_back(number);
        numbers.push_back(last);
    }
    return numbers;
}

}  // namespace cep::tool
