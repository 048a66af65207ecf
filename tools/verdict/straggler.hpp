// SPDX-License-Identifier: Apache-2.0
//
// Stragglers: ranks whose own work takes longer than that of their peers, in which phase, and since when. Where most
// ranks are slow, or one of two, they are a slow group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ledger/job_table.hpp"
#include "replay/finding.hpp"
#include "stats/robust.hpp"
#include "verdict/own_work.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// Thresholds for reporting a deviation.
struct StragglerRules {
    static constexpr double relative_floor = 0.02;     // of a typical step
    static constexpr double absolute_floor_ms = 0.05;  // below it, clocks and schedulers speak
    static constexpr double noise_multiple = 4.5;      // of the robust standard deviations over steps and over ranks
    static constexpr double spread_chance = 1e-4;      // of so many spreads over ranks, by Student's distribution
    static constexpr double false_alarms = 1e-4;       // a job: chance that noise makes any rank look like a straggler
    static constexpr double false_alarms_of_all = 0.05;  // the same, where each step takes many times as long
    static constexpr double many_times = 4;
    static constexpr double several_times = 2.5;  // in each of so many steps: that is slow as long as it was recorded
    static constexpr std::size_t lasting_steps = 40;
    static constexpr double may_be_chance = 0.05;  // the same chance, of what is no finding but a reason to abstain
    static constexpr double nearly_all = 0.85;     // of steps
    static constexpr double hardly_any = 0.08;     // of steps
    static constexpr double least_margin = 0.15;   // of the excess, by which the others wait longer than the straggler
    static constexpr double uncovered_margin = 0.5;  // the same of time in no phase, which may be waiting itself
    static constexpr double late = 0.05;             // of a step: shorter waiting needs no name
    static constexpr std::size_t least_steps = 8;    // to speak of a pattern
    static constexpr std::size_t least_slow_steps = 4;
};

/// A finding while ranks and steps are those of the table.
struct Straggler : Finding {
    const PeerGroup* role = nullptr;
    std::vector<std::size_t> rank_indices{};  // of the ranks
    std::size_t rank_index = 0;               // of the typical one
    Segment steps{};                          // from the first slow one to the last
};

/// Ranks that are slower than their peers: stragglers and groups. What each may cost the job at most: what it exceeds
/// them by, as far as they wait for it.
[[nodiscard]] std::vector<Finding> find_stragglers(const JobTable& table, const AbsentRows& absent,
                                                   const std::vector<PeerGroup>& groups, std::size_t threads);

/// Ranks that come to their collectives later than their peers, whatever the reason; the latest first.
[[nodiscard]] std::vector<Finding> find_late(const JobTable& table, const std::vector<PeerGroup>& groups);

/// The one for which that is most certain, where it may be chance. Of its figures, only what it exceeds its peers by.
[[nodiscard]] std::optional<Finding> find_most_likely_late(const JobTable& table, const std::vector<PeerGroup>& groups);

/// The numbers of those ranks that are about as late as the first one.
[[nodiscard]] std::vector<std::int64_t> late_together(const std::vector<Finding>& late);

}  // namespace cep::tool
