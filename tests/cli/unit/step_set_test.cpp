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

}  // namespace
}  // namespace cep::tool
