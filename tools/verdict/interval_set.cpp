// SPDX-License-Identifier: Apache-2.0
#include "interval_set.hpp"

#include <algorithm>

namespace cep::analysis {

Intervals union_of(std::vector<Interval> any) {
    std::erase_if(any, [](const Interval& interval) { return interval.end_ns <= interval.begin_ns; });
    std::sort(any.begin(), any.end(), [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
    Intervals all;
    for (const Interval& interval : any) {
        if (all.empty() || all.back().end_ns < interval.begin_ns) {
            all.push_back(interval);
        } else {
            all.back().end_ns = std::max(all.back().end_ns, interval.end_ns);
        }
    }
    return all;
}

Intervals intersection_of(const Intervals& a, const Intervals& b) {
    Intervals common;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const Interval both{std::max(a[i].begin_ns, b[j].begin_ns), std::min(a[i].end_ns, b[j].end_ns)};
        if (both.begin_ns < both.end_ns) common.push_back(both);
        ++(a[i].end_ns < b[j].end_ns ? i : j);
    }
    return common;
}

Intervals difference_of(const Intervals& a, const Intervals& b) {
    Intervals rest;
    std::size_t j = 0;
    for (Interval left : a) {
        while (j < b.size() && b[j].end_ns <= left.begin_ns) ++j;
        for (std::size_t k = j; k < b.size() && b[k].begin_ns < left.end_ns; ++k) {
            if (left.begin_ns < b[k].begin_ns) rest.push_back({left.begin_ns, b[k].begin_ns});
            left.begin_ns = std::max(left.begin_ns, b[k].end_ns);
        }
        if (left.begin_ns < left.end_ns) rest.push_back(left);
    }
    return rest;
}

double length_ms(const Intervals& intervals) {
    std::int64_t sum_ns = 0;
    for (const Interval& interval : intervals) sum_ns += interval.end_ns - interval.begin_ns;
    return static_cast<double>(sum_ns) * 1e-6;
}

}  // namespace cep::analysis
