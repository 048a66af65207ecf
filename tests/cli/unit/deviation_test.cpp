// SPDX-License-Identifier: Apache-2.0
#include "verdict/deviation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "job_tables.hpp"

namespace cep::tool {
namespace {

TEST(Deviation, OfRanksWithoutNoiseIsByHand) {
    // Rank r takes 10 + r ms and step s adds s ms. The lower quartile of 9 ranks is that of rank 2, and so are the
    // quartile of the medians and the offset 0. spread: (3 - 1) / 0.8317 · (1 + 2 / 9).
    const auto time_of = [](std::size_t rank, std::size_t step) { return 10.0 + double(rank) + double(step); };
    const PeerGroup group = peers_of(9);
    const Deviation deviation(phase_of("forward", 9, 20, time_of), group);
    for (std::size_t rank = 0; rank < 9; ++rank)
        for (std::size_t step = 0; step < 20; ++step)
            EXPECT_NEAR(deviation.excess_ms(rank)[step], double(rank) - 2, 1e-5);
    EXPECT_NEAR(deviation.usual_ms(7), 19, 1e-5);
    EXPECT_NEAR(deviation.noise_ms(), 0, 1e-5);
    EXPECT_NEAR(deviation.spread_ms(), 2 / 0.8317 * 11 / 9, 1e-4);
    EXPECT_FALSE(deviation.contains_waiting());
}

TEST(Deviation, IsCentredOnAUsualRankAndNotOnTheFastest) {
    // Independent noise: the lower quartile of each step lies 0.67 standard deviations below what a rank takes.
    Normal normal(1);
    const auto time_of = [&normal](std::size_t, std::size_t) { return 10 + 0.5 * normal(); };
    const PeerGroup group = peers_of(16);
    const Deviation deviation(phase_of("forward", 16, 400, time_of), group);
    std::vector<double> medians;
    for (std::size_t rank = 0; rank < 16; ++rank) {
        const auto excess = deviation.excess_ms(rank);
        medians.push_back(sorted_quantile({excess.begin(), excess.end()}, 0.5));
    }
    EXPECT_NEAR(sorted_quantile(medians, 0.25), 0, 1e-9);
}

TEST(Deviation, NoiseAndInflationAgreeWithTheirDefinitions) {
    Normal normal(2);
    std::vector<double> level(12, 0);
    const auto time_of = [&](std::size_t rank, std::size_t) {
        return 20 + (level[rank] = 0.5 * level[rank] + normal());
    };
    const PeerGroup group = peers_of(12);
    const Deviation deviation(phase_of("forward", 12, 300, time_of), group);
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
    EXPECT_NEAR(deviation.noise_ms(), sorted_quantile(noises, 0.5), 1e-9);
    const double correlation = sorted_quantile(correlations, 0.5);
    EXPECT_NEAR(correlation, 0.45, 0.1);
    EXPECT_NEAR(deviation.inflation(), (1 + correlation) / (1 - correlation), 1e-9);
}

TEST(Deviation, APhaseThatIsLongerThanItsOwnTimeContainsWaiting) {
    LocalPhase phase = phase_of("backward", 4, 10, [](std::size_t, std::size_t) { return 10.0; });
    phase.duration_ms.set(2, 3, 10.5);
    const PeerGroup group = peers_of(4);
    EXPECT_TRUE(Deviation(phase, group).contains_waiting());
}

}  // namespace
}  // namespace cep::tool
