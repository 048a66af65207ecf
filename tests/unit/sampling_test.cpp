// SPDX-License-Identifier: Apache-2.0
#include "options/sampling.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

std::vector<std::int64_t> recorded(const cep::Sampling& sampling, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> steps;
    for (std::int64_t step = first; step <= last; ++step)
        if (sampling.records(step)) steps.push_back(step);
    return steps;
}

TEST(Sampling, StartsItsStrideAtTheStart) {
    EXPECT_EQ(recorded({2, 5, 2, 10}, 0, 6), (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(recorded({7, INT64_MAX, 10, 10}, 0, 30), (std::vector<std::int64_t>{7, 17, 27}));
}

TEST(Sampling, DefaultsRecordEveryTenthStep) {
    EXPECT_EQ(recorded({}, 0, 20), (std::vector<std::int64_t>{0, 10, 20}));
}

TEST(Sampling, IncludesBothEndsOfTheWindow) {
    EXPECT_EQ(recorded({3, 5, 1, 10}, 0, 9), (std::vector<std::int64_t>{3, 4, 5}));
    EXPECT_EQ(recorded({4, 4, 100, 10}, 0, 9), (std::vector<std::int64_t>{4}));
}

TEST(Sampling, HoldsAtTheEndOfTheStepRange) {
    const cep::Sampling sampling{0, INT64_MAX, INT64_MAX, 10};
    EXPECT_TRUE(sampling.records(INT64_MAX));
    EXPECT_FALSE(sampling.records(INT64_MAX - 1));
}

TEST(Sampling, FlushesAtAbsoluteSteps) {
    const cep::Sampling sampling{3, INT64_MAX, 2, 5};
    EXPECT_TRUE(sampling.flushes(0));
    EXPECT_TRUE(sampling.flushes(5));
    EXPECT_FALSE(sampling.flushes(3));
}

}  // namespace
