// SPDX-License-Identifier: Apache-2.0
#include "stats/change_points.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "job_tables.hpp"

namespace cep::tool {
namespace {

/// 100 at first, with noise of 1; times `factor` from `at` on.
std::vector<double> series(std::size_t count, std::size_t at, double factor, std::uint64_t seed) {
    Normal normal(seed);
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back((100 + normal()) * (i < at ? 1 : factor));
    return values;
}

TEST(ChangePoints, AChangeIsFoundWhereItIs) {
    for (const double factor : {1.1, 0.9}) {
        const std::vector<double> values = series(200, 120, factor, 1);
        const std::vector<ChangePoint> points = find_change_points(values);
        ASSERT_EQ(points.size(), 1U);
        EXPECT_EQ(points[0].at, 120U);
        EXPECT_DOUBLE_EQ(points[0].before, sorted_quantile({values.begin(), values.begin() + 120}, 0.5));
        EXPECT_DOUBLE_EQ(points[0].after, sorted_quantile({values.begin() + 120, values.end()}, 0.5));
    }
}

TEST(ChangePoints, NoiseHasNone) {
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) found += find_change_points(series(300, 300, 1, seed)).size();
    EXPECT_EQ(found, 0U);
}

TEST(ChangePoints, NeighboursThatResembleEachOtherAreNoChange) {
    // Autoregressive of order one, 0.8: it wanders by more than independent noise of the same steps would.
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Normal normal(seed);
        std::vector<double> values;
        double level = 0;
        for (std::size_t i = 0; i < 300; ++i) values.push_back(100 + (level = 0.8 * level + 2 * normal()));
        found += find_change_points(values).empty() ? 0 : 1;
    }
    EXPECT_LE(found, 3U);
}

TEST(ChangePoints, NoiseThatLastsForManyStepsIsNoChange) {
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Normal normal(seed);
        std::vector<double> values;
        double level = 0;
        for (std::size_t i = 0; i < 200; ++i) values.push_back(100 + (level = 0.95 * level + 0.6 * normal()));
        found += find_change_points(values).empty() ? 0 : 1;
    }
    EXPECT_LE(found, 1U);
}

TEST(ChangePoints, StepsThatAreLongNowAndThenAreNoChange) {
    std::vector<double> values = series(100, 100, 1, 5);
    for (const std::size_t step : {92U, 94U, 95U, 97U, 99U}) values[step] *= 1.6;
    EXPECT_TRUE(find_change_points(values).empty());
}

TEST(ChangePoints, SmallChangesAreLeftOut) {
    EXPECT_TRUE(find_change_points(series(2000, 1000, 1.015, 2)).empty());
    EXPECT_EQ(find_change_points(series(2000, 1000, 1.03, 2)).size(), 1U);
    ChangeRules rules;
    rules.least_change = 0.01;
    EXPECT_EQ(find_change_points(series(2000, 1000, 1.015, 2), rules).size(), 1U);
}

TEST(ChangePoints, AFewSlowStepsAreNoChange) {
    std::vector<double> values = series(100, 100, 1, 3);
    for (std::size_t i = 50; i < 54; ++i) values[i] *= 3;
    EXPECT_TRUE(find_change_points(values).empty());
}

TEST(ChangePoints, ThereAndBackAreTwo) {
    std::vector<double> values = series(300, 100, 1.2, 4);
    for (std::size_t i = 200; i < 300; ++i) values[i] /= 1.2;
    const std::vector<ChangePoint> points = find_change_points(values);
    ASSERT_EQ(points.size(), 2U);
    EXPECT_EQ(points[0].at, 100U);
    EXPECT_EQ(points[1].at, 200U);
}

TEST(ChangePoints, TooFewStepsHaveNone) {
    std::vector<double> values(15, 100);
    for (std::size_t i = 8; i < 15; ++i) values[i] = 200;
    EXPECT_TRUE(find_change_points(values).empty());
    values.push_back(200);
    EXPECT_EQ(find_change_points(values).size(), 1U);
}

}  // namespace
}  // namespace cep::tool
