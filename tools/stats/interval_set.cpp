// SPDX-License-Identifier: Apache-2.0
#include "stats/interval_set.hpp"

namespace cep::tool {

void unite(Intervals& intervals) {
    const auto begins_before = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
    if (!std::is_sorted(intervals.begin(), intervals.end(), begins_before))
        std::sort(intervals.begin(), intervals.end(), begins_before);
    std::size_t kept = 0;
    for (const Interval interval : intervals) {
        if (interval.end_ns <= interval.begin_ns) continue;
        if (kept == 0 || intervals[kept - 1].end_ns < interval.begin_ns) {
            intervals[kept++] = interval;
        } else {
            intervals[kept - 1].end_ns = std::max(intervals[kept - 1].end_ns, interval.end_ns);
        }
    }
    intervals.resize(kept);
}

std::int64_t length_ns(const Intervals& set) {
    std::int64_t sum_ns = 0;
    for (const Interval& interval : set) sum_ns += interval.end_ns - interval.begin_ns;
    return sum_ns;
}

double length_ms(const Intervals& set) {
    return static_cast<double>(length_ns(set)) * 1e-6;
}

std::int64_t length_within_ns(const Intervals& set, Interval window) {
    std::int64_t sum_ns = 0;
    auto interval = std::partition_point(set.begin(), set.end(),
                                         [&](const Interval& one) { return one.end_ns <= window.begin_ns; });
    for (; interval != set.end() && interval->begin_ns < window.end_ns; ++interval)
        sum_ns += std::min(interval->end_ns, window.end_ns) - std::max(interval->begin_ns, window.begin_ns);
    return sum_ns;
}

std::int64_t shared_ns(const Intervals& a, const Intervals& b) {
    std::int64_t sum_ns = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        sum_ns +=
            std::max<std::int64_t>(0, std::min(a[i].end_ns, b[j].end_ns) - std::max(a[i].begin_ns, b[j].begin_ns));
        ++(a[i].end_ns < b[j].end_ns ? i : j);
    }
    return sum_ns;
}

double shared_ms(const Intervals& a, const Intervals& b) {
    return static_cast<double>(shared_ns(a, b)) * 1e-6;
}

}  // namespace cep::tool
