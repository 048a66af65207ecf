// SPDX-License-Identifier: Apache-2.0
//
// Stragglers: ranks whose own work takes longer than that of their peers, in which phase, and since when. Where most
// ranks are slow, or one of two, they are a slow group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/job_table.hpp"
#include "stats/robust.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

enum class Pattern : std::uint8_t { persistent, intermittent, window };
[[nodiscard]] std::string_view pattern_name(Pattern pattern);

/// What a deviation must exceed to be spoken of.
struct StragglerRules {
    static constexpr double relative_floor = 0.02;     // of a typical step
    static constexpr double absolute_floor_ms = 0.05;  // below it, clocks and schedulers speak
    static constexpr double noise_multiple = 4.5;      // of the robust standard deviations over steps and over ranks
    static constexpr double spread_chance = 1e-4;      // of so many spreads over ranks, by Student's distribution
    static constexpr double false_alarms = 1e-4;       // a job: chance that noise makes any rank look like a straggler
    static constexpr double nearly_all = 0.85;         // of steps
    static constexpr double hardly_any = 0.08;         // of steps
    static constexpr double least_cost = 0.01;         // of the time of all steps: what costs less is a note
    static constexpr double least_margin = 0.15;  // of the excess, by which the others wait longer than the straggler
    static constexpr double uncovered_margin = 0.5;  // the same of time in no phase, which may be waiting itself
    static constexpr double late = 0.05;             // of a step: shorter waiting needs no name
    static constexpr std::size_t least_steps = 8;    // to speak of a pattern
    static constexpr std::size_t least_slow_steps = 4;
};

/// How a rank is slower than its peers.
struct Slowness {
    std::string phase;
    std::vector<std::string> also;  // further phases of the rank that are slow
    Pattern pattern = Pattern::persistent;
    bool grows = false;                            // from step to step
    double slowdown = 1;                           // of the phase, in slow steps: own time / that of a usual rank,
                                                   // infinite where that does not do it
    double excess_ms = 0;                          // a slow step, median
    double step_fraction = 0;                      // of all steps that are slow
    std::int64_t every_recorded = 0;               // so many recorded steps apart; 0 if slow ones are not evenly spaced
    std::optional<double> waiters_median_wait_ms;  // in slow steps; none if waiting is unknown
    double confidence = 0;                         // 1 − the chance that noise alone makes any rank look like this
    bool keeps_waiting = true;                     // the others wait for it, as far as that is known
    bool is_of_some = false;                       // some ranks do not do the phase
    bool is_alone = false;                         // no other rank does it
};

struct Straggler : Slowness {
    std::size_t rank = 0;                   // index into the table
    Segment steps;                          // of the table, from the first slow one to the last
    std::vector<bool> slow;                 // by step of the table
    std::vector<double> excess_by_step_ms;  // of uncovered time only
    double cost_ms = 0;                     // what the job loses if this is the only one; NaN if unknown
    double chance_cost_ms = 0;              // what it would lose by the noise of a usual rank in its place
};

/// Ranks of one role that fall into two populations.
struct SlowGroup {
    const PeerGroup* role = nullptr;
    std::vector<Straggler> slow;    // the least slow one first
    std::vector<std::size_t> fast;  // indices into the table
    Straggler typical;              // what most of the slow ones have in common
    double fast_ms = 0;             // of the phase, a usual step of the fast ones
};

/// The name under which time that no phase covers is searched.
inline constexpr std::string_view uncovered_name = "uncovered";

struct Stragglers {
    std::vector<Straggler> costly;        // ordered by cost
    std::vector<Straggler> harmless;      // nobody waits for these, or what they cost is too little
    std::vector<SlowGroup> groups;        // ordered by cost
    std::vector<std::vector<bool>> slow;  // by rank of the table: the steps that are slow and cost time; empty for none
    bool waits_inside = false;            // phases contain waiting, of which it is an estimate what was beside work
};

/// Uncovered time of a straggler that the others wait for becomes part of its own work.
[[nodiscard]] Stragglers find_stragglers(const JobTable& table, const std::vector<PeerGroup>& groups,
                                         StepMatrix& own_ms, std::size_t threads);

/// Ranks that come to their collectives later than their peers, whatever the reason. `excess_ms`: by how much.
[[nodiscard]] std::vector<Straggler> find_late(const JobTable& table, const std::vector<PeerGroup>& groups);

/// The numbers of those ranks that are about as late as the first one.
[[nodiscard]] std::vector<std::int64_t> late_together(const JobTable& table, const std::vector<Straggler>& late);

}  // namespace cep::tool
