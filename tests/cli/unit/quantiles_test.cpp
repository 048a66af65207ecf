// SPDX-License-Identifier: Apache-2.0
#include "stats/quantiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace cep::tool {
namespace {

TEST(ExactQuantile, InterpolatesBetweenOrderStatistics) {
    std::vector<double> values{4, 1, 3, 2};
    EXPECT_DOUBLE_EQ(quantile_of(values, 0), 1);
    EXPECT_DOUBLE_EQ(quantile_of(values, 0.5), 2.5);
    EXPECT_DOUBLE_EQ(quantile_of(values, 0.9), 3.7);
    EXPECT_DOUBLE_EQ(quantile_of(values, 1), 4);
}

TEST(ExactQuantile, OfOneValueIsThatValueAndOfNoneIsNotANumber) {
    std::vector<double> one{7};
    EXPECT_DOUBLE_EQ(quantile_of(one, 0.99), 7);
    std::vector<double> none;
    EXPECT_TRUE(std::isnan(quantile_of(none, 0.5)));
    ASSERT_EQ(quantiles_of(none, {0.1, 0.5}).size(), 2U);
    EXPECT_TRUE(std::isnan(quantiles_of(none, {0.1, 0.5})[1]));
}

TEST(ExactQuantile, SeveralComeInTheOrderThatTheyWereAskedForIn) {
    const std::vector<double> values{4, 1, 3, 2};
    EXPECT_EQ(quantiles_of(values, {1, 0, 0.5, 0.5}), (std::vector<double>{4, 1, 2.5, 2.5}));
    EXPECT_TRUE(quantiles_of(values, {}).empty());
}

double quantile_of_sorted(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    const double position = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const double fraction = position - static_cast<double>(below);
    return fraction == 0 ? values[below] : values[below] + (values[below + 1] - values[below]) * fraction;
}

void expect_quantiles_of_sorted(const std::vector<double>& values) {
    const std::vector<double> all = quantiles_of(values, {0.0, 0.001, 0.25, 0.5, 0.899, 0.9, 0.99, 0.9999, 1.0});
    std::size_t i = 0;
    for (const double q : {0.0, 0.001, 0.25, 0.5, 0.899, 0.9, 0.99, 0.9999, 1.0}) {
        const double expected = quantile_of_sorted(values, q);
        EXPECT_EQ(quantile_of(values, q), expected) << values.size() << ' ' << q;
        EXPECT_EQ(all.at(i++), expected) << values.size() << ' ' << q;
    }
}

TEST(ExactQuantile, OfAnyNumberOfValuesIsThatOfThemSorted) {
    std::mt19937_64 random(4);
    std::lognormal_distribution<double> durations_ms(1, 0.3);
    for (const std::size_t count :
         {1U, 2U, 3U, 7U, 8U, 9U, 15U, 16U, 17U, 63U, 64U, 65U, 1000U, 4095U, 4096U, 4097U, 50'001U}) {
        std::vector<double> values(count);
        for (double& value : values) value = durations_ms(random);
        expect_quantiles_of_sorted(values);
        for (double& value : values) value = static_cast<double>(random() % 5) - 2;
        expect_quantiles_of_sorted(values);
        for (double& value : values) value = (random() % 2 == 0 ? -1e-3 : 1e3) * durations_ms(random);
        expect_quantiles_of_sorted(values);
        for (double& value : values) value = random() % 20 == 0 ? 0 : durations_ms(random);
        expect_quantiles_of_sorted(values);
        for (double& value : values) value = random() % 2 == 0 ? 4 : std::nextafter(4, 5);
        expect_quantiles_of_sorted(values);
    }
}

TEST(ExactQuantile, OfValuesThatAreOddlySpreadIsThatOfThemSorted) {
    std::vector<double> values(20'480);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 20 == 0 ? 1 : 100 + static_cast<double>(i % 977);
    expect_quantiles_of_sorted(values);
    std::fill(values.begin(), values.end(), 3.5);
    expect_quantiles_of_sorted(values);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    expect_quantiles_of_sorted(values);
    values[7] = std::numeric_limits<double>::infinity();
    values[8] = -std::numeric_limits<double>::infinity();
    for (const double q : {0.001, 0.5, 0.99}) EXPECT_EQ(quantile_of(values, q), quantile_of_sorted(values, q));
}

TEST(ExactQuantile, ComesToAnEndWhereValuesAreNotNumbers) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    for (const std::vector<double>& values : {std::vector{none, none, none}, {1, none, 2}, {none, 3, 2, none, 1}})
        for (const double q : {0.0, 0.5, 1.0}) (void)quantile_of(values, q);
}

TEST(TakeQuantiles, OfManyThatRiseAndFallComeSoon) {
    const std::size_t count = 1'000'001;
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(std::min(i, count - 1 - i));
    const double median = 0.5;
    double found = 0;
    take_quantiles(values, std::span(&median, 1), std::span(&found, 1));
    EXPECT_EQ(found, 250'000);
}

TEST(ExactQuantile, LeavesTheOrderOfItsValues) {
    const std::vector<double> values{4, 1, 3, 2};
    EXPECT_DOUBLE_EQ(quantile_of(values, 0.5), 2.5);
    EXPECT_EQ(values, (std::vector<double>{4, 1, 3, 2}));
}

}  // namespace
}  // namespace cep::tool
