// SPDX-License-Identifier: Apache-2.0
#include "ledger/table_quantiles.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

/// Some values are missing, and all of step 3.
StepMatrix random_matrix(std::size_t ranks, std::size_t steps) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> value(0, 50);
    StepMatrix ms(ranks, steps);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t step = 0; step < steps; ++step)
            if (const int number = value(random); number > 5 && step != 3) ms.set(rank, step, number / 8.0);
    return ms;
}

bool same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

TEST(TableQuantiles, OverRanksAreThoseOfEachStep) {
    constexpr std::size_t steps = 150;
    for (const std::size_t ranks : {1U, 2U, 7U, 8U, 32U, 33U, 100U})
        for (const double q : {0.0, 0.25, 0.5, 1.0}) {
            const StepMatrix ms = random_matrix(ranks, steps);
            const std::vector<double> found = quantiles_over_ranks(ms, q);
            ASSERT_EQ(found.size(), steps);
            for (std::size_t step = 0; step < steps; ++step) {
                std::vector<double> of_step;
                for (std::size_t rank = 0; rank < ranks; ++rank) of_step.push_back(ms.at(rank, step));
                EXPECT_PRED2(same, found[step], quantile_of(of_step, q)) << ranks << " ranks, step " << step;
            }
        }
}

TEST(TableQuantiles, SeveralAreThoseThatAreAskedForAlone) {
    const StepMatrix ms = random_matrix(33, 150);
    const std::vector<std::size_t> ranks = {0, 3, 4, 9, 10, 11, 20, 32};
    const std::vector<double> qs = {0.1, 0.25, 0.25, 0.5, 1.0};
    const std::vector<std::vector<double>> found = quantiles_over_ranks(ms, ranks, qs);
    for (std::size_t i = 0; i < qs.size(); ++i)
        for (std::size_t step = 0; step < ms.steps(); ++step)
            EXPECT_PRED2(same, found[i][step], quantiles_over_ranks(ms, ranks, qs[i])[step]) << qs[i] << ' ' << step;
}

TEST(TableQuantiles, OverSomeRanksLeaveTheOthersOut) {
    StepMatrix ms(4, 1);
    for (std::size_t rank = 0; rank < 4; ++rank) ms.set(rank, 0, static_cast<double>(rank));
    EXPECT_EQ(quantiles_over_ranks(ms, std::vector<std::size_t>{1, 3}, 0.5), std::vector{2.0});
    EXPECT_TRUE(std::isnan(quantiles_over_ranks(ms, std::vector<std::size_t>{}, 0.5).front()));
}

TEST(TableQuantiles, OverStepsAreThoseOfEachRank) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> value(-1, 1);
    for (const std::size_t steps : {1U, 5U, 16U, 17U, 3000U})
        for (const std::size_t ranks : {1U, 3U, 64U, 70U}) {
            std::vector<double> rows(ranks * steps);
            for (double& one : rows) one = value(random);
            rows[0] = missing;
            const RankQuantiles found = quantiles_over_steps(rows, steps, {0.5, 0.9});
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                const std::span<const double> row = std::span(rows).subspan(rank * steps, steps);
                EXPECT_PRED2(same, found[0][rank], quantile_of(row, 0.5));
                EXPECT_PRED2(same, found[1][rank], quantile_of(row, 0.9));
            }
        }
}

TEST(TableQuantiles, WhatIsTypicalOfNothingIsZero) {
    EXPECT_EQ(typical_ms(StepMatrix(3, 2)), 0);
    EXPECT_EQ(typical_ms(std::vector{3.0, missing, 1.0}), 2);
}

}  // namespace
}  // namespace cep::tool
