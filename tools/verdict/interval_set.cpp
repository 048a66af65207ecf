// SPDX-License-Identifier: Apache-2.0
#include "interval_set.hpp"

#include <algorithm>

namespace cep::analysis {

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

double length_ms(const Intervals& set) {
    std::int64_t sum_ns = 0;
    for (const Interval& interval : set) sum_ns += interval.end_ns - interval.begin_ns;
    return static_cast<double>(sum_ns) * 1e-6;
}

double shared_ms(const Intervals& a, const Intervals& b) {
    std::int64_t sum_ns = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        sum_ns +=
            std::max<std::int64_t>(0, std::min(a[i].end_ns, b[j].end_ns) - std::max(a[i].begin_ns, b[j].begin_ns));
        ++(a[i].end_ns < b[j].end_ns ? i : j);
    }
    return static_cast<double>(sum_ns) * 1e-6;
}

}  // namespace cep::analysis
