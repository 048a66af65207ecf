// SPDX-License-Identifier: Apache-2.0
//
// Sets of intervals of time, in nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cep::tool {

struct Interval {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;

    [[nodiscard]] std::int64_t length_ns() const { return end_ns - begin_ns; }
    [[nodiscard]] bool empty() const { return end_ns <= begin_ns; }
    void include(const Interval& other) {
        begin_ns = std::min(begin_ns, other.begin_ns);
        end_ns = std::max(end_ns, other.end_ns);
    }
    [[nodiscard]] bool contains(const Interval& other, std::int64_t tolerance_ns) const {
        return begin_ns <= other.begin_ns + tolerance_ns && other.end_ns <= end_ns + tolerance_ns;
    }
};

using Intervals = std::vector<Interval>;

/// Makes any intervals a set of them: ascending, apart from each other, none empty.
void unite(Intervals& intervals);
/// The same with one more interval, which begins no earlier than all before it.
inline void append(Intervals& set, Interval interval) {
    if (interval.empty()) return;
    if (set.empty() || set.back().end_ns < interval.begin_ns) {
        set.push_back(interval);
    } else {
        set.back().end_ns = std::max(set.back().end_ns, interval.end_ns);
    }
}
/// The length of a set.
[[nodiscard]] std::int64_t length_ns(const Intervals& set);
[[nodiscard]] double length_ms(const Intervals& set);
/// The length of what a set has between two times.
[[nodiscard]] std::int64_t length_within_ns(const Intervals& set, Interval window);
/// The length of what two sets have in common.
[[nodiscard]] std::int64_t shared_ns(const Intervals& a, const Intervals& b);
[[nodiscard]] double shared_ms(const Intervals& a, const Intervals& b);

}  // namespace cep::tool
