// SPDX-License-Identifier: Apache-2.0
#include "verdict/deviation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "job_tables.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

TEST(Deviation, OfRanksWithoutNoiseIsByHand) {
    // Rank r takes 10 + r ms and step s adds s ms. The lower quartile of 9 ranks is that of rank 2, and so are the
    // quartile of the medians and the offset 0. spread: that of the seven lowest, 0 to 6, √(28 / 6) / 0.7312 = 2.95, is
    // smaller than that of the median distance 2 from the median, 1.4826 · 2 · (1 + 2 / 9).
    const auto time_of = [](std::size_t rank, std::size_t step) { return 10.0 + double(rank) + double(step); };
    const PeerGroup group = peers_of(9);
    const Deviation deviation = deviation_of(phase_of("forward", 9, 20, time_of), group);
    for (std::size_t rank = 0; rank < 9; ++rank)
        for (std::size_t step = 0; step < 20; ++step)
            EXPECT_NEAR(deviation.excess_ms(rank)[step], double(rank) - 2, 1e-5);
    EXPECT_NEAR(deviation.usual_ms(7), 19, 1e-5);
    EXPECT_NEAR(deviation.noise_ms(), 0, 1e-5);
    EXPECT_NEAR(deviation.spread_ms(), 1.4826022 * 2 * 11 / 9, 1e-4);
}

TEST(Deviation, NoiseAndInflationAgreeWithTheirDefinitions) {
    Normal normal(2);
    std::vector<double> level(12, 0);
    const auto time_of = [&](std::size_t rank, std::size_t) {
        return 20 + (level[rank] = 0.5 * level[rank] + normal());
    };
    const PeerGroup group = peers_of(12);
    const Deviation deviation = deviation_of(phase_of("forward", 12, 300, time_of), group);
    std::vector<double> noises;
    std::vector<double> correlations;
    for (std::size_t rank = 0; rank < 12; ++rank) {
        const auto excess = deviation.excess_ms(rank);
        const double median = sorted_quantile({excess.begin(), excess.end()}, 0.5);
        std::vector<double> distances;
        for (const double ms : excess) distances.push_back(std::abs(ms - median));
        noises.push_back(
            std::max(1.4826022185056018 * sorted_quantile(distances, 0.5), sorted_quantile(distances, 0.9) / 1.645));
        double products = 0;
        double squares = 0;
        for (std::size_t i = 0; i + 1 < excess.size(); ++i) {
            const double limit = 4 * noises.back();
            const double a = std::clamp(excess[i] - median, -limit, limit);
            const double b = std::clamp(excess[i + 1] - median, -limit, limit);
            products += a * b;
            squares += (a * a + b * b) / 2;
        }
        correlations.push_back(products / squares);
    }
    const double correlation = sorted_quantile(correlations, 0.5);
    EXPECT_NEAR(correlation, 0.45, 0.1);
    const double corrected = correlation + (1 + 3 * correlation) / 300;
    EXPECT_GE(deviation.inflation(), (1 + corrected) / (1 - corrected) - 1e-9);
    EXPECT_LT(deviation.inflation(), 5) << "blocks of 9 and 37 steps say about the same";
    EXPECT_NEAR(deviation.noise_ms(), sorted_quantile(noises, 0.5) / std::sqrt(1 - deviation.inflation() / 300), 1e-9);
    EXPECT_NEAR(deviation.independent_values(), 12 * 300 / deviation.inflation(), 1e-6);
}

TEST(Deviation, WhatHostsAddIsNoNoiseOfDevices) {
    // The hosts of 4 ranks take turns of 10 steps, and are late in 8 of these, by 3 ms.
    const auto is_late = [](std::size_t rank, std::size_t step) {
        return (step / 10 + rank) % 4 == 0 && step % 10 < 8;
    };
    Normal normal(4);
    LocalPhase phase = phase_of("forward", 4, 200, [&](std::size_t rank, std::size_t step) {
        return 20 + 0.1 * normal() + (is_late(rank, step) ? 3 : 0);
    });
    for (std::size_t rank = 0; rank < 4; ++rank)
        for (std::size_t step = 0; step < 200; ++step) phase.is_launch_bound.push_back(is_late(rank, step));
    const PeerGroup group = peers_of(4);
    const Deviation all = deviation_of(phase, group);
    const Deviation of_device = deviation_of(phase, group, 0, ChosenSteps::of_device);
    EXPECT_GT(all.noise_ms(), 1);
    EXPECT_NEAR(of_device.noise_ms(), 0.1, 0.03);
    EXPECT_EQ(of_device.peers_with(160), 4U);
    EXPECT_EQ(of_device.peers_with(161), 0U);
    EXPECT_NEAR(of_device.independent_values(), 4 * 160 / of_device.inflation(), 1e-6);
    for (std::size_t step = 0; step < 200; ++step) {
        EXPECT_EQ(is_missing(of_device.excess_ms(1)[step]), is_late(1, step));
        EXPECT_GT(of_device.usual_ms(step), 19) << "all ranks say what is usual";
    }
}

TEST(Deviation, ASlowDriftUnderFastNoiseInflatesMoreThanNeighboursShow) {
    Normal normal(3);
    std::vector<double> level(16, 0);
    const auto time_of = [&](std::size_t rank, std::size_t) {
        return 20 + (level[rank] = 0.98 * level[rank] + 0.2 * normal()) + normal();
    };
    const PeerGroup group = peers_of(16);
    const Deviation deviation = deviation_of(phase_of("forward", 16, 1000, time_of), group);
    EXPECT_GT(deviation.inflation(), 15) << "the correlation of neighbours is about 0.5: 3";
}

TEST(CountBelowGap, NeedsAGapThatNothingInAPopulationResembles) {
    EXPECT_EQ(count_below_gap({0, 0.1, 0.2, 5, 9}, 1, 1), 3U) << "the slow ones may be any, if they are fewer";
    EXPECT_EQ(count_below_gap({0, 0.1, 5, 5.2, 5.1}, 1, 1), 2U) << "most are slow, and together";
    EXPECT_EQ(count_below_gap({0, 0.1, 5, 7, 9}, 1, 1), 5U) << "most are slow, but not together";
    EXPECT_EQ(count_below_gap({0, 2, 5}, 1, 1), 3U) << "the gap is no three times the range below it";
    EXPECT_EQ(count_below_gap({0, 0.1, 5, 5.2, 5.1}, 1, 6), 5U) << "too small a gap where most are slow";
    EXPECT_EQ(count_below_gap({3, std::nan(""), 0}, 1, 9), 1U) << "of two, one is slow";
    EXPECT_EQ(count_below_gap({1}, 1, 1), 1U);
}

}  // namespace
}  // namespace cep::tool
