// SPDX-License-Identifier: Apache-2.0
#include "verdict/own_work.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "job_tables.hpp"

namespace cep::tool {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// 40 steps of 8 ranks with 10 ms of "forward" each, and a second phase.
RolePhase find_second(const TimeOf& second_ms) {
    JobTable table = table_of(8, 40, {phase_of("forward", 8, 40, [](std::size_t, std::size_t) { return 10.0; })});
    table.local.push_back(phase_of("second", 8, 40, second_ms));
    return AbsentRows(table).find(1, peers_of(8));
}

std::size_t count_zeros(const RolePhase& phase) {
    std::size_t zeros = 0;
    for (std::size_t rank = 0; rank < 8; ++rank)
        for (const float ms : phase.own_ms.of_rank(rank)) zeros += ms == 0;
    return zeros;
}

TEST(AbsentRows, OfAPhaseThatOneRankDoesAreNoTimeOnTheOthers) {
    const RolePhase found = find_second([](std::size_t rank, std::size_t) { return rank == 3 ? 5.0 : none; });
    EXPECT_TRUE(found.is_of_some);
    EXPECT_EQ(found.ranks, 1U);
    EXPECT_EQ(count_zeros(found), 7 * 40U);
    EXPECT_EQ(found.own_ms.at(3, 7), 5);
}

TEST(AbsentRows, OfOneRankInSomeStepsAreNoTimeInTheOtherSteps) {
    const RolePhase found =
        find_second([](std::size_t rank, std::size_t step) { return rank == 3 && step % 10 == 9 ? 5.0 : none; });
    EXPECT_EQ(count_zeros(found), 8 * 40 - 4U);
}

TEST(AbsentRows, OfAPhaseThatAllRanksDoWereLost) {
    const RolePhase found =
        find_second([](std::size_t rank, std::size_t step) { return (7 * rank + 3 * step) % 10 < 7 ? 5.0 : none; });
    EXPECT_FALSE(found.is_of_some);
    EXPECT_EQ(count_zeros(found), 0U);
}

TEST(AbsentRows, OfAPhaseOfSomeStepsSayNothingOfTheOtherSteps) {
    const RolePhase found = find_second([](std::size_t, std::size_t step) { return step % 10 == 9 ? 5.0 : none; });
    EXPECT_FALSE(found.is_of_some);
    EXPECT_TRUE(std::isnan(found.own_ms.at(0, 0)));
}

TEST(AbsentRows, OfARankThatLostAsManyOfOtherPhasesWereLost) {
    // Rank 3 lost every fifth step's row of both.
    const auto kept = [](std::size_t rank, std::size_t step) { return rank != 3 || step % 5 != 0; };
    JobTable table = table_of(8, 40, {phase_of("forward", 8, 40, [](std::size_t, std::size_t) { return 10.0; })});
    table.local = {
        phase_of("forward", 8, 40, [&](std::size_t rank, std::size_t step) { return kept(rank, step) ? 10.0 : none; }),
        phase_of("second", 8, 40,
                 [&](std::size_t rank, std::size_t step) { return rank == 3 && kept(rank, step) ? 5.0 : none; })};
    const RolePhase found = AbsentRows(table).find(1, peers_of(8));
    EXPECT_TRUE(std::isnan(found.own_ms.at(3, 5)));
    EXPECT_EQ(found.own_ms.at(2, 5), 0);
}

TEST(AbsentRows, OfARankWithoutAnyRowOfItsDeviceWereLost) {
    JobTable table = table_of(2, 40, {phase_of("data_load", 2, 40, [](std::size_t, std::size_t) { return 4.0; })});
    table.local[0].kind = schema::Kind::data;
    table.local.push_back(
        phase_of("forward", 2, 40, [](std::size_t rank, std::size_t) { return rank == 0 ? 9 : none; }));
    const RolePhase found = AbsentRows(table).find(1, peers_of(2));
    EXPECT_FALSE(found.is_of_some);
    EXPECT_TRUE(std::isnan(found.own_ms.at(1, 0)));
}

TEST(AbsentRows, OfAStepThatARankDidNotRecordSayNothing) {
    JobTable table = table_of(8, 40, {phase_of("forward", 8, 40, [](std::size_t, std::size_t) { return 10.0; })});
    table.local.push_back(
        phase_of("second", 8, 40, [](std::size_t rank, std::size_t) { return rank == 3 ? 5.0 : none; }));
    table.step_ms.set(1, 20, none);
    const RolePhase found = AbsentRows(table).find(1, peers_of(8));
    EXPECT_TRUE(std::isnan(found.own_ms.at(1, 20)));
    EXPECT_EQ(found.own_ms.at(1, 21), 0);
}

}  // namespace
}  // namespace cep::tool
