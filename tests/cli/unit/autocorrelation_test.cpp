// SPDX-License-Identifier: Apache-2.0
//
// Correlation times of series whose correlation is known.
#include "stats/autocorrelation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace cep::compare {
namespace {

/// Normal values with the correlation φ to the one before.
std::vector<double> autoregression(double phi, std::size_t size, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> values;
    double value = normal(random);
    for (std::size_t i = 0; i < size; ++i) {
        values.push_back(value);
        value = phi * value + std::sqrt(1 - phi * phi) * normal(random);
    }
    return values;
}

/// Of the ranks of normal values with correlation ρ, Pearson's correlation is 6/π · asin(ρ/2).
double expected_time(double phi) {
    double time = 1;
    for (int lag = 1; lag < 1000; ++lag) time += 12 / std::numbers::pi * std::asin(std::pow(phi, lag) / 2);
    return time;
}

TEST(CorrelationTime, OfIndependentStepsIsOne) {
    EXPECT_NEAR(correlation_time_steps({autoregression(0, 20'000, 1)}), 1, 0.1);
}

TEST(CorrelationTime, OfAnAutoregressionIsTheSumOfItsCorrelations) {
    for (const double phi : {0.3, 0.6, 0.9})
        EXPECT_NEAR(correlation_time_steps({autoregression(phi, 100'000, 2)}) / expected_time(phi), 1, 0.15) << phi;
}

TEST(CorrelationTime, SeriesCountRoundTheirOwnMiddles) {
    std::vector<double> a = autoregression(0, 5'000, 3);
    std::vector<double> b = autoregression(0, 5'000, 4);
    for (double& value : b) value += 1000;
    EXPECT_NEAR(correlation_time_steps({a, b}), 1, 0.2);
}

TEST(CorrelationTime, SingleLongStepsDoNotHideTheOthers) {
    std::vector<double> values = autoregression(0.9, 100'000, 5);
    for (std::size_t i = 0; i < values.size(); i += 1000) values[i] = 1e9;
    EXPECT_NEAR(correlation_time_steps({values}) / expected_time(0.9), 1, 0.15);
}

TEST(CorrelationTime, IsNeverBelowOne) {
    std::vector<double> alternating;
    for (int i = 0; i < 1000; ++i) alternating.push_back(i % 2);
    EXPECT_EQ(correlation_time_steps({alternating}), 1);
    EXPECT_EQ(correlation_time_steps({{7, 7, 7, 7, 7, 7}}), 1);
    EXPECT_EQ(correlation_time_steps({{1, 2, 3}}), 1);
    EXPECT_EQ(correlation_time_steps({}), 1);
}

// ∛n for steps without correlation; else 4 (τ − 1/τ): of 9 it is 35.6.
TEST(ChooseBlockSteps, IsLongEnoughThatBlocksSayLittleOfEachOther) {
    EXPECT_EQ(choose_block_steps(1, 1), 1U);
    EXPECT_EQ(choose_block_steps(1, 1000), 10U);
    EXPECT_EQ(choose_block_steps(9, 1000), 36U);
    EXPECT_EQ(choose_block_steps(2, 1000), 10U);
}

TEST(BlockMedians, NoValueIsLeftOutAndBlocksAreOfOneLengthButForOne) {
    EXPECT_EQ(block_medians({1, 2, 3, 4, 5, 6}, 3), (std::vector<double>{2, 5}));
    EXPECT_EQ(block_medians({1, 2, 3, 4, 5, 6, 7}, 3), (std::vector<double>{2, 5.5}));
    EXPECT_EQ(block_medians({5, 1, 3}, 1), (std::vector<double>{5, 1, 3}));
    EXPECT_EQ(block_medians({5, 1}, 3), std::vector<double>{});
}

}  // namespace
}  // namespace cep::compare
