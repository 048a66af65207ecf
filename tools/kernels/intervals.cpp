// SPDX-License-Identifier: Apache-2.0
#include "intervals.hpp"

#include <algorithm>

namespace cep::kernels {

void IntervalUnion::add(Interval interval) {
    if (interval.end_ns <= interval.begin_ns) return;
    if (!intervals_.empty() && interval.begin_ns <= intervals_.back().end_ns) {
        intervals_.back().end_ns = std::max(intervals_.back().end_ns, interval.end_ns);
    } else {
        intervals_.push_back(interval);
    }
}

std::int64_t IntervalUnion::length_ns() const {
    std::int64_t length_ns = 0;
    for (const Interval& interval : intervals_) length_ns += interval.end_ns - interval.begin_ns;
    return length_ns;
}

std::int64_t IntervalUnion::length_within_ns(Interval window) const {
    std::int64_t length_ns = 0;
    auto interval = std::partition_point(intervals_.begin(), intervals_.end(),
                                         [&](const Interval& one) { return one.end_ns <= window.begin_ns; });
    for (; interval != intervals_.end() && interval->begin_ns < window.end_ns; ++interval)
        length_ns += std::min(interval->end_ns, window.end_ns) - std::max(interval->begin_ns, window.begin_ns);
    return length_ns;
}

std::int64_t IntervalUnion::shared_ns(const IntervalUnion& with) const {
    std::int64_t shared_ns = 0;
    auto a = intervals_.begin();
    auto b = with.intervals_.begin();
    while (a != intervals_.end() && b != with.intervals_.end()) {
        shared_ns += std::max<std::int64_t>(0, std::min(a->end_ns, b->end_ns) - std::max(a->begin_ns, b->begin_ns));
        if (a->end_ns < b->end_ns) {
            ++a;
        } else {
            ++b;
        }
    }
    return shared_ns;
}

}  // namespace cep::kernels
