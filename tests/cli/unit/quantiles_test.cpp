// SPDX-License-Identifier: Apache-2.0
#include "quantiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace cep::analysis {
namespace {

TEST(ExactQuantile, InterpolatesBetweenOrderStatistics) {
    std::vector<double> values{4, 1, 3, 2};
    EXPECT_DOUBLE_EQ(exact_quantile(values, 0), 1);
    EXPECT_DOUBLE_EQ(exact_quantile(values, 0.5), 2.5);
    EXPECT_DOUBLE_EQ(exact_quantile(values, 0.9), 3.7);
    EXPECT_DOUBLE_EQ(exact_quantile(values, 1), 4);
}

TEST(ExactQuantile, OfOneValueIsThatValueAndOfNoneIsNotANumber) {
    std::vector<double> one{7};
    EXPECT_DOUBLE_EQ(exact_quantile(one, 0.99), 7);
    std::vector<double> none;
    EXPECT_TRUE(std::isnan(exact_quantile(none, 0.5)));
}

TEST(ExactQuantiles, AreThoseOfEachAlone) {
    std::mt19937_64 random(4);
    for (const std::size_t count : {1U, 2U, 3U, 10U, 101U, 1000U}) {
        ExactQuantiles together;
        std::vector<double> values(count);
        together.reserve(count);
        for (double& value : values) together.add(value = static_cast<double>(random() % 50));
        for (const double q : {0.5, 0.9, 0.99, 0.5, 0.0, 1.0, 0.25, 0.899})
            EXPECT_EQ(together.quantile(q), exact_quantile(values, q)) << count << ' ' << q;
    }
}

TEST(ExactQuantiles, OfNoneIsNotANumber) {
    EXPECT_TRUE(std::isnan(ExactQuantiles().quantile(0.5)));
}

TEST(LogHistogram, QuantilesAreWithinItsRelativeError) {
    std::mt19937_64 random(3);
    std::lognormal_distribution<double> durations_ms(1, 3);
    std::vector<double> values(10'000);
    LogHistogram histogram;
    for (double& value : values) histogram.add(value = durations_ms(random));
    std::sort(values.begin(), values.end());
    for (const double q : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
        const double exact = values[static_cast<std::size_t>(q * 9999)];
        EXPECT_NEAR(histogram.quantile(q), exact, exact * LogHistogram::relative_error * 1.000001) << q;
    }
}

TEST(LogHistogram, MergedPartsAreTheWhole) {
    LogHistogram whole;
    LogHistogram small;
    LogHistogram large;
    for (int i = 0; i < 1000; ++i) {
        const double value = std::exp(0.02 * i - 8);
        whole.add(value);
        (i < 300 ? small : large).add(value);
    }
    LogHistogram merged;
    merged.merge(large);
    merged.merge(small);
    EXPECT_EQ(merged.count(), 1000U);
    for (const double q : {0.0, 0.2, 0.5, 0.9, 1.0}) EXPECT_DOUBLE_EQ(merged.quantile(q), whole.quantile(q));
}

TEST(LogHistogram, ItsBucketsMakeItAgain) {
    LogHistogram histogram;
    for (int i = 0; i < 500; ++i) histogram.add(i < 7 ? 0 : std::exp(0.05 * i - 12));
    const LogHistogram again = LogHistogram::of(histogram.buckets());
    EXPECT_EQ(again.count(), histogram.count());
    for (const double q : {0.0, 0.01, 0.5, 0.99, 1.0}) EXPECT_DOUBLE_EQ(again.quantile(q), histogram.quantile(q));
}

TEST(LogHistogram, KeepsZeros) {
    LogHistogram histogram;
    for (int i = 0; i < 3; ++i) histogram.add(0);
    histogram.add(10);
    EXPECT_DOUBLE_EQ(histogram.quantile(0.5), 0);
    EXPECT_NEAR(histogram.quantile(1), 10, 0.05);
}

}  // namespace
}  // namespace cep::analysis
