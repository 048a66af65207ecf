// SPDX-License-Identifier: Apache-2.0
#include "verdict/straggler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "job_tables.hpp"
#include "ledger/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t job_ranks = 8;
constexpr std::size_t job_steps = 200;

using MoreMs = std::function<double(std::size_t rank, std::size_t step)>;

/// 10 ms in each step with noise of 0.05 ms, and `more_ms` more.
LocalPhase noisy_phase(const std::string& name, std::uint64_t seed, const MoreMs& more_ms) {
    Normal normal(seed);
    return phase_of(name, job_ranks, job_steps,
                    [&](std::size_t rank, std::size_t step) { return 10 + 0.05 * normal() + more_ms(rank, step); });
}

/// Those that cost something, and those that do not.
struct Found {
    explicit Found(const std::vector<Finding>& stragglers) {
        for (const Finding& one : stragglers) (one.is_costly ? costly : harmless).push_back(one);
    }

    std::vector<Finding> costly;
    std::vector<Finding> harmless;
};

Found find(const JobTable& table) {
    return Found(find_stragglers(table, AbsentRows(table), {peers_of(job_ranks)}, 1));
}

JobTable table_with(std::vector<LocalPhase> phases) {
    return table_of(job_ranks, job_steps, std::move(phases));
}

double nothing(std::size_t, std::size_t) {
    return 0;
}

TEST(Stragglers, OtherSlowPhasesOfTheRankAreListedDownToTheFloor) {
    // A typical step takes 34 ms, of which 2 % are 0.68 ms; the noise of 0.05 ms would tell 0.5 ms.
    const auto slow = [](double ms) { return [ms](std::size_t rank, std::size_t) { return rank == 2 ? ms : 0; }; };
    for (const auto& [ms, listed] : {std::pair(1.0, std::vector<std::string>{"forward"}), {0.5, {}}}) {
        const Found found = find(table_with({noisy_phase("forward", 1, slow(ms)), noisy_phase("backward", 2, slow(4)),
                                             noisy_phase("optimizer", 3, nothing)}));
        ASSERT_EQ(found.costly.size(), 1U);
        EXPECT_EQ(found.costly[0].phase, "backward") << "the phase that costs most stands for all";
        EXPECT_EQ(found.costly[0].also, listed);
    }
}

/// In each step, the hosts of 2 of 8 ranks are late by 3 ms, for 20 steps one after the other.
bool is_late(std::size_t rank, std::size_t step) {
    return (step / 20 + rank) % 4 == 0;
}

LocalPhase phase_with_late_hosts(const MoreMs& more_ms) {
    LocalPhase phase = noisy_phase("forward", 1, [&](std::size_t rank, std::size_t step) {
        return std::max(more_ms(rank, step), is_late(rank, step) ? 3.0 : 0.0);
    });
    for (std::size_t rank = 0; rank < job_ranks; ++rank)
        for (std::size_t step = 0; step < job_steps; ++step) phase.is_launch_bound.push_back(is_late(rank, step));
    return phase;
}

TEST(Stragglers, AHostThatIsMostlyLateIsNoSlowDeviceInTheOtherSteps) {
    const auto is_slow = [](std::size_t rank, std::size_t step) { return rank == 5 && step >= 80 && step < 140; };
    const auto find_if_late = [&](std::size_t of_three) {
        LocalPhase phase =
            phase_with_late_hosts([&](std::size_t rank, std::size_t step) { return is_slow(rank, step) ? 3.0 : 0; });
        for (std::size_t step = 80; step < 140; ++step)
            phase.is_launch_bound[5 * job_steps + step] = step % 3 < of_three;
        const Found found = find(table_with({phase}));
        return found.costly.size() + found.harmless.size();
    };
    EXPECT_EQ(find_if_late(1), 1U);
    EXPECT_EQ(find_if_late(2), 0U);
}

TEST(Stragglers, WhatTheOthersWaitAtLeastIsThatOfAllStepsAlsoWhereAHostWasLate) {
    const auto is_slow = [](std::size_t rank, std::size_t) { return rank == 5 ? 2.0 : 0; };
    JobTable table = table_with({phase_with_late_hosts(is_slow)});
    table.wait_ms =
        matrix_of(job_ranks, job_steps, [](std::size_t rank, std::size_t) { return rank == 5 ? 0.0 : 3.0; });
    table.avoidable_ms = table.wait_ms;
    const Found found = find(table);
    ASSERT_EQ(found.costly.size(), 1U);
    EXPECT_EQ(found.costly[0].ranks, std::vector<std::int64_t>{5});
    EXPECT_EQ(std::count(found.costly[0].slow.begin(), found.costly[0].slow.end(), true), job_steps - 40);
    EXPECT_NEAR(found.costly[0].least_wait_share, 3.0 * job_steps / sum_ms(table.median_step_ms), 1e-9);
}

TEST(Stragglers, WhereMostHostsAreAlwaysLateNoDeviceIsCompared) {
    const auto find_if_late = [](std::size_t always_late) {
        LocalPhase phase = noisy_phase("forward", 1, [](std::size_t rank, std::size_t step) {
            if (rank == 7) return step >= 80 && step < 140 ? 3.0 : 0.0;
            return rank < 5 && is_late(rank, step) ? 3.0 : 0.0;
        });
        for (std::size_t rank = 0; rank < job_ranks; ++rank)
            for (std::size_t step = 0; step < job_steps; ++step)
                phase.is_launch_bound.push_back(rank < always_late || (rank < 5 && is_late(rank, step)));
        const Found found = find(table_with({phase}));
        return found.costly.size() + found.harmless.size();
    };
    EXPECT_EQ(find_if_late(3), 1U);
    EXPECT_EQ(find_if_late(5), 0U) << "of 8 ranks, 3 are left to say how much devices vary";
}

TEST(Stragglers, ARankThatWaitsAsLongAsTheOthersIsHarmless) {
    // The margin is 15 % of the excess, 0.45 ms of 3 ms.
    for (const auto& [margin_ms, is_harmful] : {std::pair(0.0, false), {0.40, false}, {0.50, true}, {3.0, true}}) {
        JobTable table =
            table_with({noisy_phase("forward", 1, [](std::size_t rank, std::size_t) { return rank == 5 ? 3.0 : 0; })});
        table.wait_ms = matrix_of(job_ranks, job_steps, [margin = margin_ms](std::size_t rank, std::size_t) {
            return rank == 5 ? 10.0 : 10.0 + margin;
        });
        table.avoidable_ms = table.wait_ms;
        const Found found = find(table);
        EXPECT_EQ(found.costly.size(), is_harmful ? 1U : 0U) << margin_ms;
        EXPECT_EQ(found.harmless.size(), is_harmful ? 0U : 1U) << margin_ms;
    }
}

TEST(Stragglers, ThreeSlowStepsOnARankAreNoneAndManyRanksNeedMore) {
    // 8 ranks, one phase and uncovered time are 16 tests. Five steps that no other rank has: 16 · 8⁻⁵ is above 1e-4;
    // eight: below it.
    for (const auto& [period, is_found] : {std::pair<std::size_t, bool>(40, false), {25, true}}) {
        const auto more_ms = [period = period](std::size_t rank, std::size_t step) {
            return rank == 6 && step % period == period / 2 + step / period % 2 ? 8.0 : 0.0;  // at no even distance
        };
        const Found found = find(table_with({noisy_phase("forward", 1, more_ms)}));
        EXPECT_EQ(found.costly.size() + found.harmless.size(), is_found ? 1U : 0U) << period;
    }
}

TEST(Stragglers, WhatCostsLessThanOneStepInAHundredIsHarmless) {
    // 3 ms in so many of 200 steps of 10 ms: 1 % is 20 ms.
    for (const auto& [count, is_costly] : {std::pair<std::size_t, bool>(5, false), {12, true}}) {
        const auto more_ms = [slow = count](std::size_t rank, std::size_t step) {
            return rank == 5 && step >= 100 && step < 100 + slow ? 3.0 : 0.0;
        };
        const Found found = find(table_with({noisy_phase("forward", 1, more_ms)}));
        EXPECT_EQ(found.costly.size(), is_costly ? 1U : 0U) << count;
        ASSERT_EQ(found.costly.size() + found.harmless.size(), 1U) << count;
        EXPECT_TRUE((is_costly ? found.costly : found.harmless)[0].keeps_waiting);
    }
}

}  // namespace
}  // namespace cep::tool
