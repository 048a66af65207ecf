// SPDX-License-Identifier: Apache-2.0
#include "stats/step_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace cep::tool {
namespace {

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
        set.sort();
        EXPECT_EQ(set.steps(), std::vector<std::int64_t>(expected.begin(), expected.end()));
    }
}

TEST(StepSet, JoinsTheStepsOfSeveralSets) {
    StepSet all;
    std::set<std::int64_t> expected;
    for (const std::int64_t stride : {3, 3, 5, 1000, 5, 3}) {
        StepSet set;
        for (std::int64_t step = 0; step < 3000; step += stride) {
            set.add(step);
            expected.insert(step);
        }
        set.sort();
        all.add(set.steps());
    }
    all.sort();
    EXPECT_EQ(all.steps(), std::vector<std::int64_t>(expected.begin(), expected.end()));
}

}  // namespace
}  // namespace cep::tool
