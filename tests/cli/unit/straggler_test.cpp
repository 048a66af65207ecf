// SPDX-License-Identifier: Apache-2.0
#include "verdict/straggler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "job_tables.hpp"

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

/// Those of one kind, as far as they cost something, and those that do not.
struct Found {
    explicit Found(const Stragglers& stragglers) {
        for (const Finding& one : stragglers.findings)
            (one.kind == FindingKind::group ? groups : one.is_costly ? costly : harmless).push_back(one);
    }

    std::vector<Finding> costly;
    std::vector<Finding> harmless;
    std::vector<Finding> groups;
};

Found find(const JobTable& table) {
    return Found(find_stragglers(table, {peers_of(job_ranks)}, 1));
}

/// The share of all time that `ms` in each step are.
double share_of(double ms, const JobTable& table) {
    return ms / table.median_step_ms.front();
}

JobTable table_with(std::vector<LocalPhase> phases) {
    return table_of(job_ranks, job_steps, std::move(phases));
}

double nothing(std::size_t, std::size_t) {
    return 0;
}

TEST(Stragglers, ThereAreNoneAmongEqualRanks) {
    const Found found = find(table_with({noisy_phase("forward", 1, nothing), noisy_phase("backward", 2, nothing)}));
    EXPECT_TRUE(found.costly.empty());
    EXPECT_TRUE(found.harmless.empty());
}

TEST(Stragglers, ASlowRankIsNamedWithWhatItCosts) {
    const JobTable table =
        table_with({noisy_phase("forward", 1, [](std::size_t rank, std::size_t) { return rank == 5 ? 3.0 : 0; })});
    const Found found = find(table);
    ASSERT_EQ(found.costly.size(), 1U);
    const Finding& straggler = found.costly[0];
    EXPECT_EQ(straggler.typical_rank, 5);
    EXPECT_EQ(straggler.phase, "forward");
    EXPECT_TRUE(straggler.also.empty());
    EXPECT_NEAR(straggler.excess_ms, 3, 0.1);
    // At most: each step ends 3 ms later, less what the slowest of the seven others exceeds a usual rank by.
    EXPECT_NEAR(straggler.cost_share.value_or(0), share_of(3, table), share_of(0.15, table));
    ASSERT_TRUE(straggler.waiters_median_wait_ms);
    EXPECT_NEAR(*straggler.waiters_median_wait_ms, 3, 0.1);
    EXPECT_TRUE(found.harmless.empty());
}

TEST(Stragglers, OtherSlowPhasesOfTheRankAreListed) {
    const auto slow = [](double ms) { return [ms](std::size_t rank, std::size_t) { return rank == 2 ? ms : 0; }; };
    const Found found = find(table_with({noisy_phase("forward", 1, slow(1)), noisy_phase("backward", 2, slow(4)),
                                         noisy_phase("optimizer", 3, nothing)}));
    ASSERT_EQ(found.costly.size(), 1U);
    EXPECT_EQ(found.costly[0].phase, "backward") << "the phase that costs most stands for all";
    EXPECT_EQ(found.costly[0].also, (std::vector<std::string>{"forward"}));
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

TEST(Stragglers, ASlowDeviceIsFoundAmongLateHosts) {
    const auto slow = [](std::size_t rank, std::size_t step) {
        return rank == 5 && step >= 80 && step < 140 ? 3.0 : 0.0;
    };
    LocalPhase phase = phase_with_late_hosts(slow);
    const Found found = find(table_with({phase}));
    ASSERT_EQ(found.costly.size() + found.harmless.size(), 1U);
    const Finding& straggler = (found.costly.empty() ? found.harmless : found.costly)[0];
    EXPECT_EQ(straggler.typical_rank, 5);
    EXPECT_EQ(straggler.pattern, Pattern::window);
    EXPECT_EQ(straggler.first_step, 80);
    EXPECT_EQ(straggler.last_step, 139);
    EXPECT_NEAR(straggler.excess_ms, 3, 0.1);

    phase.is_launch_bound.clear();
    const Found without = find(table_with({phase}));
    EXPECT_TRUE(without.costly.empty() && without.harmless.empty()) << "as much as hosts add, and as long";
}

TEST(Stragglers, LateHostsAreNoSlowDevices) {
    const Found found = find(table_with({phase_with_late_hosts(nothing)}));
    EXPECT_TRUE(found.costly.empty());
    EXPECT_TRUE(found.harmless.empty());
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

TEST(Stragglers, APhaseBelowTheFloorIsNotListed) {
    // A typical step takes 34 ms, of which 2 % are 0.68 ms; the noise of 0.05 ms would tell 0.5 ms.
    const auto slow = [](double ms) { return [ms](std::size_t rank, std::size_t) { return rank == 2 ? ms : 0; }; };
    const Found found = find(table_with({noisy_phase("forward", 1, slow(0.5)), noisy_phase("backward", 2, slow(4)),
                                         noisy_phase("optimizer", 3, nothing)}));
    ASSERT_EQ(found.costly.size(), 1U);
    EXPECT_TRUE(found.costly[0].also.empty());
}

TEST(Stragglers, ARankThatWaitsAsLongAsTheOthersIsHarmless) {
    // The margin is 15 % of the excess, 0.45 ms of 3 ms.
    for (const auto& [margin_ms, is_harmful] : {std::pair(0.0, false), {0.40, false}, {0.50, true}, {3.0, true}}) {
        JobTable table =
            table_with({noisy_phase("forward", 1, [](std::size_t rank, std::size_t) { return rank == 5 ? 3.0 : 0; })});
        table.wait_ms = matrix_of(job_ranks, job_steps, [margin = margin_ms](std::size_t rank, std::size_t) {
            return rank == 5 ? 10.0 : 10.0 + margin;
        });
        const Found found = find(table);
        EXPECT_EQ(found.costly.size(), is_harmful ? 1U : 0U) << margin_ms;
        EXPECT_EQ(found.harmless.size(), is_harmful ? 0U : 1U) << margin_ms;
    }
}

TEST(Stragglers, ARankWhoseSlowStepsCostNothingIsHarmless) {
    // The slower phase is made up for in another one, so that the rank is never the last: the others wait for rank 6.
    const auto slow = [](std::size_t rank, std::size_t) { return rank == 5 ? 3.0 : 0; };
    const auto fast = [](std::size_t rank, std::size_t) { return rank == 5 ? -4.0 : 0; };
    JobTable table = table_with({noisy_phase("forward", 1, slow), noisy_phase("backward", 2, fast)});
    table.wait_ms =
        matrix_of(job_ranks, job_steps, [](std::size_t rank, std::size_t) { return rank == 6 ? 0.0 : 10.0; });
    const Found found = find(table);
    EXPECT_TRUE(found.costly.empty());
    ASSERT_EQ(found.harmless.size(), 1U);
    EXPECT_EQ(found.harmless[0].phase, "forward");
}

/// Every rank has steps that take 5 ms more: `share` of them, rank 3 `share_of_3`.
MoreMs spikes(double share, double share_of_3) {
    return [share, share_of_3, bits = std::mt19937_64(11)](std::size_t rank, std::size_t) mutable {
        const double place = static_cast<double>(bits()) / 18446744073709551616.0;
        return place < (rank == 3 ? share_of_3 : share) ? 5.0 : 0.0;
    };
}

TEST(Stragglers, SlowStepsAsOftenAsOnAnyRankAreChance) {
    const Found equal = find(table_with({noisy_phase("forward", 1, spikes(0.05, 0.05))}));
    EXPECT_TRUE(equal.costly.empty());
    EXPECT_TRUE(equal.harmless.empty());
    const Found one = find(table_with({noisy_phase("forward", 1, spikes(0.05, 0.3))}));
    ASSERT_EQ(one.costly.size() + one.harmless.size(), 1U);
    const Finding& straggler = one.costly.empty() ? one.harmless[0] : one.costly[0];
    EXPECT_EQ(straggler.typical_rank, 3);
    EXPECT_EQ(straggler.pattern, Pattern::intermittent);
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

TEST(Stragglers, OfTwoRanksOneWaitsForTheOther) {
    const auto time_of = [](std::size_t rank, std::size_t) { return rank == 1 ? 15.0 : 10.0; };
    const JobTable table = table_of(2, job_steps, {phase_of("forward", 2, job_steps, time_of)});
    const std::vector<PeerGroup> groups = {peers_of(2)};
    const Found found(find_stragglers(table, groups, 1));
    EXPECT_TRUE(found.costly.empty());
    ASSERT_EQ(found.groups.size(), 1U);
    EXPECT_EQ(found.groups[0].ranks, (std::vector<std::int64_t>{1}));
    EXPECT_EQ(found.groups[0].fast_ranks, (std::vector<std::int64_t>{0}));
    EXPECT_NEAR(found.groups[0].cost_share.value_or(0), share_of(5, table), 1e-6);
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

TEST(Stragglers, MostRanksSlowAreAGroupWithItsCost) {
    const JobTable table =
        table_with({noisy_phase("forward", 1, [](std::size_t rank, std::size_t) { return rank < 5 ? 3.0 : 0; })});
    const Found found = find(table);
    EXPECT_TRUE(found.costly.empty());
    ASSERT_EQ(found.groups.size(), 1U);
    EXPECT_EQ(found.groups[0].ranks, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(found.groups[0].fast_ranks, (std::vector<std::int64_t>{5, 6, 7}));
    EXPECT_NEAR(found.groups[0].excess_ms, 3, 0.1);
    EXPECT_NEAR(found.groups[0].cost_share.value_or(0), share_of(3, table), share_of(0.15, table));
}

}  // namespace
}  // namespace cep::tool
