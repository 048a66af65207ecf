// SPDX-License-Identifier: Apache-2.0
#include "stats/step_pattern.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace cep::tool {
namespace {

std::vector<std::int64_t> numbers_up_to(std::size_t count) {
    std::vector<std::int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

std::vector<double> noise(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal(10, 0.5);
    std::vector<double> values(count);
    for (double& value : values) value = normal(engine);
    return values;
}

TEST(FindPeriod, EveryNthValueThatIsLarger) {
    for (const std::int64_t length : {2, 3, 4, 8, 10, 16, 64}) {
        const std::vector<std::int64_t> numbers = numbers_up_to(1000);
        std::vector<double> values = noise(numbers.size(), 1);
        for (std::size_t i = 0; i < values.size(); ++i)
            if (numbers[i] % length == 1) values[i] += 20;
        const auto period = find_period(numbers, values, 1);
        ASSERT_TRUE(period.has_value()) << length;
        EXPECT_EQ(period->length, length);
        EXPECT_EQ(period->remainder, 1);
        EXPECT_NEAR(period->usual, 10, 0.2);
        EXPECT_NEAR(period->larger, 30, 0.7);
        EXPECT_FALSE(find_period(numbers, values, 25)) << "not by so much";
    }
}

TEST(FindPeriod, AmongNumbersOfWhichMostAreMissing) {
    std::mt19937 engine(2);
    std::vector<std::int64_t> numbers;
    for (std::int64_t number = 0; number < 4000; ++number)
        if (engine() % 8 == 0) numbers.push_back(number);
    std::vector<double> values = noise(numbers.size(), 3);
    for (std::size_t i = 0; i < values.size(); ++i)
        if (numbers[i] % 6 == 0) values[i] += 20;
    const auto period = find_period(numbers, values, 1);
    ASSERT_TRUE(period.has_value());
    EXPECT_EQ(period->length, 6);
}

TEST(FindPeriod, NoneInNoiseNorInBurstsAtRandom) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        const std::vector<std::int64_t> numbers = numbers_up_to(300);
        std::vector<double> values = noise(numbers.size(), seed);
        EXPECT_FALSE(find_period(numbers, values, 0));
        std::mt19937 engine(seed);
        for (double& value : values)
            if (engine() % 8 == 0) value += 20;
        EXPECT_FALSE(find_period(numbers, values, 1));
    }
}

TEST(FindPeriod, ALastingChangeIsNone) {
    const std::vector<std::int64_t> numbers = numbers_up_to(300);
    std::vector<double> values = noise(numbers.size(), 1);
    for (std::size_t i = 150; i < values.size(); ++i) values[i] += 20;
    EXPECT_FALSE(find_period(numbers, values, 1));
}

TEST(FindPeriod, TooFewValuesSayNothing) {
    EXPECT_FALSE(find_period({}, {}, 1));
    const std::vector<std::int64_t> numbers = numbers_up_to(8);
    EXPECT_FALSE(find_period(numbers, std::vector<double>{1, 9, 1, 9, 1, 9, 1, 9}, 1));
}

}  // namespace
}  // namespace cep::tool
