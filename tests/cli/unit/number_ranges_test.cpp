// SPDX-License-Identifier: Apache-2.0
#include "base/number_ranges.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace cep::tool {
namespace {

using Ranges = std::map<std::int64_t, std::int64_t>;

TEST(NumberRanges, NeighboursAreOneRange) {
    NumberRanges numbers = {5, 7, 6, 1};
    EXPECT_EQ(numbers.ranges(), (Ranges{{1, 1}, {5, 7}}));
    EXPECT_EQ(numbers.size(), 4U);
    numbers.insert(2, 4);
    EXPECT_EQ(numbers.ranges(), (Ranges{{1, 7}}));
    EXPECT_EQ(numbers.highest(), 7);
}

TEST(NumberRanges, TheEndsOfTheNumbersDoNotOverflow) {
    NumberRanges numbers = {INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1};
    EXPECT_EQ(numbers.ranges(), (Ranges{{INT64_MIN, INT64_MIN + 1}, {INT64_MAX - 1, INT64_MAX}}));
    numbers.insert(INT64_MIN, INT64_MAX);
    EXPECT_EQ(numbers.ranges().size(), 1U);
    EXPECT_EQ(numbers.size(), UINT64_MAX);
    EXPECT_TRUE(numbers.contains(0));
}

TEST(NumberRanges, AgreesWithASet) {
    std::mt19937_64 bits(1);
    for (int round = 0; round < 200; ++round) {
        NumberRanges numbers;
        NumberRanges others;
        std::set<std::int64_t> expected;
        for (int i = 0; i < 20; ++i) {
            const auto first = static_cast<std::int64_t>(bits() % 60) - 30;
            const auto last = first + static_cast<std::int64_t>(bits() % 6);
            (i % 2 == 0 ? numbers : others).insert(first, last);
            for (std::int64_t number = first; number <= last; ++number) expected.insert(number);
        }
        numbers.merge(others);
        EXPECT_EQ(numbers.numbers(), std::vector<std::int64_t>(expected.begin(), expected.end()));
        EXPECT_EQ(numbers.size(), expected.size());
        for (std::int64_t number = -32; number < 38; ++number)
            EXPECT_EQ(numbers.contains(number), expected.contains(number));
    }
}

}  // namespace
}  // namespace cep::tool
