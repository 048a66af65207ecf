// SPDX-License-Identifier: Apache-2.0
#include "intervals.hpp"

#include <gtest/gtest.h>

namespace cep::kernels {
namespace {

IntervalUnion union_of(std::initializer_list<Interval> intervals) {
    IntervalUnion all;
    for (const Interval& interval : intervals) all.add(interval);
    return all;
}

TEST(Intervals, UnionCountsOverlapsOnce) {
    EXPECT_EQ(union_of({{0, 10}, {5, 15}, {6, 7}, {15, 20}, {30, 31}}).length_ns(), 21);
}

TEST(Intervals, EmptyIntervalsAddNothing) {
    EXPECT_EQ(union_of({{5, 5}, {7, 6}}).length_ns(), 0);
}

TEST(Intervals, LengthWithinAWindowIsCutAtItsEdges) {
    const IntervalUnion all = union_of({{0, 10}, {20, 30}, {40, 50}});
    EXPECT_EQ(all.length_within_ns({5, 45}), 5 + 10 + 5);
    EXPECT_EQ(all.length_within_ns({10, 20}), 0);
    EXPECT_EQ(all.length_within_ns({-5, 100}), 30);
}

TEST(Intervals, SharedTimeIsInBothUnions) {
    const IntervalUnion a = union_of({{0, 10}, {20, 30}});
    const IntervalUnion b = union_of({{5, 22}, {25, 26}, {29, 40}});
    EXPECT_EQ(a.shared_ns(b), 5 + 2 + 1 + 1);
    EXPECT_EQ(b.shared_ns(a), a.shared_ns(b));
    EXPECT_EQ(a.shared_ns({}), 0);
}

}  // namespace
}  // namespace cep::kernels
