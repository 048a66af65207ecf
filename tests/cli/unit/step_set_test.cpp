// SPDX-License-Identifier: Apache-2.0
#include "check/step_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace cep::tool {
namespace {

std::vector<std::int64_t> steps_of(const StepSet& set) {
    StepUnion all;
    all.add(set);
    return all.finish();
}

TEST(StepSet, HoldsWhatWasAddedInAnyOrder) {
    std::mt19937_64 random(1);
    for (const std::int64_t range : {2, 30, 5000, 1'000'000'000}) {
        StepSet set;
        std::set<std::int64_t> expected;
        std::int64_t step = 0;
        for (int i = 0; i < 20'000; ++i) {
            step = random() % 4 == 0 ? static_cast<std::int64_t>(random()) % range : step + 10;
            set.add(step);
            expected.insert(step);
        }
        EXPECT_EQ(steps_of(set), std::vector<std::int64_t>(expected.begin(), expected.end()));
        EXPECT_EQ(set.last(), *expected.rbegin());
    }
}

TEST(StepSet, TakesTheLargestAndTheSmallestStep) {
    StepSet set;
    EXPECT_TRUE(set.empty());
    for (const std::int64_t step : {INT64_MIN, INT64_MAX, std::int64_t{0}, INT64_MIN}) set.add(step);
    EXPECT_EQ(steps_of(set), (std::vector<std::int64_t>{INT64_MIN, 0, INT64_MAX}));
}

TEST(StepUnion, HoldsTheStepsOfAllSets) {
    std::vector<StepSet> sets(50);
    std::set<std::int64_t> expected;
    for (std::size_t i = 0; i < sets.size(); ++i)
        for (std::int64_t step = 0; step < 100; ++step) {
            const std::int64_t shifted = step * 7 + static_cast<std::int64_t>(i / 3);
            sets[i].add(shifted);
            expected.insert(shifted);
        }
    StepUnion all;
    for (const StepSet& set : sets) all.add(set);
    EXPECT_EQ(all.finish(), std::vector<std::int64_t>(expected.begin(), expected.end()));
}

}  // namespace
}  // namespace cep::tool
