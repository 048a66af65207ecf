// SPDX-License-Identifier: Apache-2.0
#include "verdict/own_work.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "job_tables.hpp"

namespace cep::tool {
namespace {

constexpr double lost = std::numeric_limits<double>::quiet_NaN();

TEST(OwnWork, IsTheSumOfPhasesAndTakesThePeersMedianForALostRow) {
    // Ranks 0 to 3 take 1, 2, 4 and 8 ms in "a" and 10 in "b"; rank 3 lost "a" in step 1: the median of 1, 2, 4 is 2.
    const double a_ms[] = {1, 2, 4, 8};
    const std::size_t step_count = 3;
    LocalPhase a = phase_of("a", 4, step_count, [&](std::size_t rank, std::size_t) { return a_ms[rank]; });
    a.own_ms.set(3, 1, lost);
    LocalPhase b = phase_of("b", 4, step_count, [](std::size_t, std::size_t) { return 10.0; });
    JobTable table = table_of(4, step_count, {});
    table.local = {a, b};
    const StepMatrix own_ms = own_work(table, {peers_of(4)});
    EXPECT_DOUBLE_EQ(own_ms.at(0, 0), 11);
    EXPECT_DOUBLE_EQ(own_ms.at(3, 0), 18);
    EXPECT_DOUBLE_EQ(own_ms.at(3, 1), 12);
    EXPECT_DOUBLE_EQ(own_ms.at(2, 2), 14);
}

TEST(OwnWork, OfAPhaseThatNoPeerHasIsNothing) {
    JobTable table = table_of(3, 2, {});
    table.local = {phase_of("a", 3, 2, [](std::size_t, std::size_t step) { return step == 0 ? 5.0 : lost; })};
    const StepMatrix own_ms = own_work(table, {peers_of(3)});
    EXPECT_DOUBLE_EQ(own_ms.at(1, 0), 5);
    EXPECT_TRUE(std::isnan(own_ms.at(1, 1)));
}

TEST(OwnWork, APhaseThatOneRankDoesIsNoWorkOfItsPeers) {
    // Rank 0 alone validates, for 5 ms in each step.
    JobTable table = table_of(4, 3, {});
    table.local = {phase_of("forward", 4, 3, [](std::size_t, std::size_t) { return 10.0; }),
                   phase_of("validate", 4, 3, [](std::size_t rank, std::size_t) { return rank == 0 ? 5.0 : lost; })};
    const StepMatrix own_ms = own_work(table, {peers_of(4)});
    for (std::size_t step = 0; step < 3; ++step) {
        EXPECT_DOUBLE_EQ(own_ms.at(0, step), 15);
        for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_DOUBLE_EQ(own_ms.at(rank, step), 10);
    }
}

TEST(OwnWork, APhaseThatRanksDoInTurnsIsWorkOfTheOneThatDidIt) {
    JobTable table = table_of(4, 8, {});
    table.local = {
        phase_of("forward", 4, 8, [](std::size_t, std::size_t) { return 10.0; }),
        phase_of("save", 4, 8, [](std::size_t rank, std::size_t step) { return step % 4 == rank ? 7 : lost; })};
    const StepMatrix own_ms = own_work(table, {peers_of(4)});
    for (std::size_t step = 0; step < 8; ++step)
        for (std::size_t rank = 0; rank < 4; ++rank)
            EXPECT_DOUBLE_EQ(own_ms.at(rank, step), step % 4 == rank ? 17 : 10);
}

TEST(OwnWork, ARankThatNeverDoesWhatItsPeersDoHasNotLostIt) {
    JobTable table = table_of(4, 2, {});
    table.local = {phase_of("receive", 4, 2, [](std::size_t rank, std::size_t) { return rank > 0 ? 3.0 : lost; }),
                   phase_of("read", 4, 2, [](std::size_t rank, std::size_t) { return rank == 0 ? 9.0 : lost; })};
    const StepMatrix own_ms = own_work(table, {peers_of(4)});
    EXPECT_DOUBLE_EQ(own_ms.at(0, 1), 9);
    EXPECT_DOUBLE_EQ(own_ms.at(2, 1), 3);
}

TEST(OwnWork, ALostRowOfOneOfTwoRanksCountsAsThatOfTheOther) {
    JobTable table = table_of(2, 4, {});
    table.local = {
        phase_of("a", 2, 4, [](std::size_t rank, std::size_t step) { return rank == 1 && step == 2 ? lost : 6; })};
    const StepMatrix own_ms = own_work(table, {peers_of(2)});
    EXPECT_DOUBLE_EQ(own_ms.at(1, 2), 6);
}

TEST(OwnWork, ALostRowOfAPhaseOfSomeStepsCountsInTheseOnly) {
    // All ranks save in steps 0 and 4; rank 2 lost the row of step 4.
    JobTable table = table_of(3, 8, {});
    table.local = {phase_of("forward", 3, 8, [](std::size_t, std::size_t) { return 10.0; }),
                   phase_of("save", 3, 8, [](std::size_t rank, std::size_t step) {
                       return step % 4 != 0 || (rank == 2 && step == 4) ? lost : 7;
                   })};
    const StepMatrix own_ms = own_work(table, {peers_of(3)});
    EXPECT_DOUBLE_EQ(own_ms.at(2, 4), 17);
    EXPECT_DOUBLE_EQ(own_ms.at(2, 3), 10);
}

TEST(OwnWork, OfAJobThatLostMostRowsHasThoseOfThePeers) {
    const auto with_loss = [](std::size_t phase) {
        return [phase](std::size_t rank, std::size_t step) {
            return (7 * rank + 3 * step + 5 * phase) % 10 < 3 ? 10.0 : lost;
        };
    };
    JobTable table = table_of(4, 20, {});
    table.local = {phase_of("a", 4, 20, with_loss(0)), phase_of("b", 4, 20, with_loss(1))};
    const StepMatrix own_ms = own_work(table, {peers_of(4)});
    for (std::size_t step = 0; step < 20; ++step) {
        double known_ms = 0;
        for (const LocalPhase& phase : table.local) {
            bool any = false;
            for (std::size_t rank = 0; rank < 4; ++rank) any |= !std::isnan(phase.own_ms.at(rank, step));
            known_ms += any ? 10 : 0;
        }
        if (known_ms == 0) continue;
        for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_DOUBLE_EQ(own_ms.at(rank, step), known_ms);
    }
}

}  // namespace
}  // namespace cep::tool
