// SPDX-License-Identifier: Apache-2.0
//
// Stragglers: ranks whose own work takes longer than that of their peers, in which phase, and since when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stats/robust.hpp"
#include "verdict/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

enum class Pattern : std::uint8_t { persistent, intermittent, window };
[[nodiscard]] std::string_view pattern_name(Pattern pattern);

/// What a deviation must exceed to be spoken of.
struct StragglerRules {
    double relative_floor = 0.02;     ///< of a typical step
    double absolute_floor_ms = 0.05;  ///< below it, clocks and schedulers speak
    double noise_multiple = 4.5;      ///< of the robust standard deviations over steps and over ranks
    double false_alarms = 1e-4;       ///< a job: chance that noise makes any rank look like a straggler
    double nearly_all = 0.85;         ///< of steps
    double hardly_any = 0.08;         ///< of steps
    double least_cost = 0.005;        ///< of the time of the slow steps
    double least_margin = 0.15;       ///< of the excess, by which the others wait longer than the straggler
    std::size_t least_steps = 8;      ///< to speak of a pattern
    std::size_t least_slow_steps = 4;
    std::size_t least_peers = 3;  ///< ranks of one role: of two, nobody knows which is the usual one
};

/// A rank that is slower than its peers.
struct Straggler {
    std::size_t rank = 0;  // index into the table
    std::string phase;
    std::vector<std::string> also;  // further phases of the rank that are slow
    Pattern pattern = Pattern::persistent;
    Segment steps;                                 // of the table, from the first slow one to the last
    std::vector<bool> slow;                        // by step of the table
    bool grows = false;                            // from step to step
    double slowdown = 1;                           // of the phase, in slow steps: own time / that of a usual rank
    double excess_ms = 0;                          // a slow step, median
    double step_fraction = 0;                      // of all steps that are slow
    double cost_ms = 0;                            // what the job loses if this is the only one
    std::optional<double> waiters_median_wait_ms;  // in slow steps; none if waiting is unknown
    double confidence = 0;                         // 1 − the chance that noise alone makes any rank look like this
};

struct Stragglers {
    std::vector<Straggler> costly;    // ordered by cost
    std::vector<Straggler> harmless;  // nobody waits for these
    bool waits_inside = false;        // phases contain waiting, of which it is an estimate what was beside work
};

[[nodiscard]] Stragglers find_stragglers(const JobTable& table, const std::vector<PeerGroup>& groups,
                                         const StepMatrix& own_ms, std::size_t threads,
                                         const StragglerRules& rules = {});

}  // namespace cep::tool
