// SPDX-License-Identifier: Apache-2.0
//
// Shared collectives: what the rows of collectives, matched over ranks, show of the names of groups and of how far the
// clocks of hosts are apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "matching/collectives.hpp"
#include "matching/match_rules.hpp"
#include "replay/job_rows.hpp"

namespace cep::tool {

/// A row of communication.
struct CommRow {
    CollectiveId id;
    double start_ms;
    double end_ms;
    std::uint32_t rank;
    std::uint32_t seq;
    std::uint16_t name;
    std::uint16_t stream;
};

/// Of a step, in the order of their ids and ranks.
[[nodiscard]] std::vector<CommRow> comm_rows(const StepRows& step, const MatchRules& rules);

/// By host: by how much its clock is ahead in this step, from the ends of collectives, which their members share.
[[nodiscard]] std::vector<double> find_clock_offsets_ms(std::span<const CommRow> rows, const JobRows& job);
void shift_clocks(StepRows& step, std::span<const double> offsets_ms, const JobRows& job);

struct ClockFacts {
    bool are_apart = false;
    double wander_ms = 0;  // from step to step
};
[[nodiscard]] ClockFacts find_clock_facts(std::span<const StepRows> steps, const JobRows& job, const MatchRules& rules,
                                          double tolerance_ms);

/// Finds the names that stand for many groups. Groups of different kinds use different streams. No member of a
/// collective ends before the last has begun; where some do, the groups are told apart by the fewest coordinates with
/// which none do. `one_host`: only ranks of one host are compared, whatever their clocks.
void find_shared_names(std::span<const StepRows> steps, const JobRows& job, bool one_host, double tolerance_ms,
                       MatchRules& rules);

}  // namespace cep::tool
