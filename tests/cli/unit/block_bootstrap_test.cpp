// SPDX-License-Identifier: Apache-2.0
//
// Block bootstrap: seasons, and intervals that cannot be impossible. tests/cli/test_compare.py holds every figure to a
// second computation.
#include "stats/block_bootstrap.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace cep::tool {
namespace {

using Series = std::vector<double>;

/// Around 100, with standard deviation 1 and the correlation φ to the value before.
Series autoregression(double phi, std::size_t size, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    Series values;
    double value = normal(random);
    for (std::size_t i = 0; i < size; ++i) {
        values.push_back(100 + value);
        value = phi * value + std::sqrt(1 - phi * phi) * normal(random);
    }
    return values;
}

/// `typical` with `large` at every `period`-th place.
Series with_season(std::size_t size, std::size_t period, double large, std::uint64_t seed) {
    Series values = autoregression(0, size, seed);
    for (std::size_t i = 0; i < size; i += period) values[i] += large;
    return values;
}

TEST(MeanBootstrap, LargeValuesAtEveryTenthPlaceAreNoChance) {
    EXPECT_LT(MeanBootstrap(with_season(400, 10, 1000, 5), 0, 1).variance(), 2.0 / 400);
    // Half a period more: one large value more or less, of 405.
    EXPECT_NEAR(std::sqrt(MeanBootstrap(with_season(405, 10, 1000, 5), 0, 1).variance()), 0.5 * 1000 / 405, 0.02);
}

TEST(CompareMeans, IntervalAndPAgreeAndNoIntervalIsImpossible) {
    std::mt19937_64 random(8);
    std::lognormal_distribution<double> heavy(0, 2.5);
    for (int i = 0; i < 200; ++i) {
        Series a;
        Series b;
        for (int step = 0; step < 5 + i % 40; ++step) {
            a.push_back(heavy(random));
            b.push_back((i % 3 + 1) * heavy(random));
        }
        const MeanChange change = compare_means(MeanBootstrap(a, 0, 1), MeanBootstrap(b, 0, 2));
        EXPECT_GT(change.interval.low, -1);
        EXPECT_LE(change.interval.low, *change.change);
        EXPECT_GE(change.interval.high, *change.change);
        const bool holds_zero = change.interval.low <= 0 && change.interval.high >= 0;
        EXPECT_EQ(holds_zero, change.p > 0.05) << change.p;
    }
}

TEST(CompareMeans, OfConstantsIsExact) {
    const MeanBootstrap seven(Series(5, 7.0), 0, 1);
    const MeanBootstrap also(Series(5, 7.0), 0, 2);
    const MeanBootstrap fourteen(Series(5, 14.0), 0, 2);
    EXPECT_EQ(compare_means(seven, also).p, 1);
    EXPECT_EQ(*compare_means(seven, fourteen).change, 1);
    EXPECT_LT(compare_means(seven, fourteen).p, 1e-6);
}

TEST(CompareMeans, OfNothingHasNoRelativeChange) {
    const MeanBootstrap none(Series(20, 0.0), 0, 1);
    const MeanBootstrap some(autoregression(0, 20, 11), 0, 2);
    EXPECT_FALSE(compare_means(none, some).change);
    EXPECT_LT(compare_means(none, some).p, 0.001);
    EXPECT_EQ(*compare_means(some, none).change, -1);
    EXPECT_EQ(compare_means(none, none).p, 1);
}

}  // namespace
}  // namespace cep::tool
