// SPDX-License-Identifier: Apache-2.0
#include "stats/step_pattern.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cep::tool {
namespace {

TEST(InferStride, IsTheCommonDifference) {
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{0, 10, 20, 40, 50}), 10);
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{5}), std::nullopt);
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{5, 6}), std::nullopt);
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{1, 4, 9, 16, 25}), std::nullopt);
}

TEST(FindMissingSteps, NamesStepsOfTheStrideBetweenFirstAndLast) {
    const MissingSteps missing = find_missing_steps(std::vector<std::int64_t>{0, 10, 40, 45}, 10);
    EXPECT_EQ(missing.count, 2U);
    EXPECT_EQ(missing.listed, (std::vector<std::int64_t>{20, 30}));
}

TEST(FindMissingSteps, CountsMoreThanItLists) {
    const MissingSteps missing = find_missing_steps(std::vector<std::int64_t>{INT64_MIN, INT64_MAX}, 1);
    EXPECT_EQ(missing.count, UINT64_MAX - 1);
    EXPECT_EQ(missing.listed.size(), MissingSteps::max_listed);
}

}  // namespace
}  // namespace cep::tool
