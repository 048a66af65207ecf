// SPDX-License-Identifier: Apache-2.0
#include "stats/interval_set.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

Intervals united(Intervals intervals) {
    unite(intervals);
    return intervals;
}

Intervals appended(const Intervals& intervals) {
    Intervals set;
    for (const Interval& interval : intervals) append(set, interval);
    return set;
}

TEST(IntervalSet, CountsOverlapsOnce) {
    const Intervals ordered{{0, 10}, {5, 15}, {6, 7}, {15, 20}, {30, 31}};
    EXPECT_EQ(length_ns(united(ordered)), 21);
    EXPECT_EQ(length_ns(appended(ordered)), 21);
    EXPECT_EQ(length_ns(united({{30, 31}, {6, 7}, {15, 20}, {0, 10}, {5, 15}})), 21);
    EXPECT_DOUBLE_EQ(length_ms(united(ordered)), 21e-6);
}

TEST(IntervalSet, EmptyIntervalsAddNothing) {
    EXPECT_TRUE(united({{5, 5}, {7, 6}}).empty());
    EXPECT_TRUE(appended({{5, 5}, {7, 6}}).empty());
}

TEST(IntervalSet, LengthWithinAWindowIsCutAtItsEdges) {
    const Intervals set{{0, 10}, {20, 30}, {40, 50}};
    EXPECT_EQ(length_within_ns(set, {5, 45}), 5 + 10 + 5);
    EXPECT_EQ(length_within_ns(set, {10, 20}), 0);
    EXPECT_EQ(length_within_ns(set, {-5, 100}), 30);
}

TEST(IntervalSet, SharedTimeIsInBoth) {
    const Intervals a{{0, 10}, {20, 30}};
    const Intervals b{{5, 22}, {25, 26}, {29, 40}};
    EXPECT_EQ(shared_ns(a, b), 5 + 2 + 1 + 1);
    EXPECT_EQ(shared_ns(b, a), shared_ns(a, b));
    EXPECT_EQ(shared_ns(a, {}), 0);
}

}  // namespace
}  // namespace cep::tool
