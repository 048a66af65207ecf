// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "stats/interval_set.hpp"
#include "stats/step_pattern.hpp"

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

TEST(InferStride, IsTheCommonDifference) {
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{0, 10, 20, 40, 50}), 10);
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{5}), std::nullopt);
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{5, 6}), std::nullopt);
    EXPECT_EQ(infer_stride(std::vector<std::int64_t>{1, 4, 9, 16, 25}), std::nullopt);
}

}  // namespace
}  // namespace cep::tool
