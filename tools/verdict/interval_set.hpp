// SPDX-License-Identifier: Apache-2.0
//
// Sets of intervals of time, in nanoseconds.
#pragma once

#include <cstdint>
#include <vector>

namespace cep::analysis {

struct Interval {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;

    [[nodiscard]] bool contains(const Interval& other, std::int64_t tolerance_ns) const {
        return begin_ns <= other.begin_ns + tolerance_ns && other.end_ns <= end_ns + tolerance_ns;
    }
};

/// Ascending, apart from each other, none empty.
using Intervals = std::vector<Interval>;

[[nodiscard]] Intervals union_of(std::vector<Interval> any);
[[nodiscard]] Intervals intersection_of(const Intervals& a, const Intervals& b);
/// What is in `a` and not in `b`.
[[nodiscard]] Intervals difference_of(const Intervals& a, const Intervals& b);
[[nodiscard]] double length_ms(const Intervals& intervals);

}  // namespace cep::analysis
