// SPDX-License-Identifier: Apache-2.0
//
// Replay: what each step of a job would have taken with other durations of its work. The steps' dependency graphs are
// found in the rows: what each piece of work waited for, on its rank and in collectives. A replay with the durations as
// they were must give the time that was observed; with typical ones it gives the time of a balanced job. The questions
// are those of "Understanding Stragglers in Large Model Training Using What-if Analysis" (2025).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/job.hpp"
#include "replay/finding.hpp"

namespace cep::tool {

/// Shares of what would be gained if the job were balanced, which add up to 1: its sources evened out one after the
/// other. All 0 where that is next to nothing.
struct LossShares {
    double communication = 0;
    double within_ranks = 0;  // from micro-batch to micro-batch and step to step
    double ranks = 0;         // between ranks of a role
    double stages = 0;
};

struct Replay {
    static constexpr double most_error = 0.01;
    static constexpr double most_error_at_all = 0.1;  // with more, nothing is said of causes
    static constexpr double least_coverage = 0.75;
    static constexpr double nearly_all_rows = 0.99;
    static constexpr double least_matched = 0.9;  // with less, waiting for others is taken for transfer
    static constexpr double most_unseen = 0.5;    // of what a cause costs
    static constexpr double least_cost = 0.01;    // of a step: what costs less is a note

    /// Whether the steps could be replayed, and took as long as was observed.
    [[nodiscard]] bool holds() const { return is_usable() && std::abs(error) <= most_error; }
    /// Whether they took about as long.
    [[nodiscard]] bool is_usable() const {
        return is_possible && std::abs(error) <= most_error_at_all && row_coverage >= least_coverage && is_matched();
    }

    [[nodiscard]] bool has_nearly_all_rows() const { return row_coverage >= nearly_all_rows; }
    /// Where rows of transfers were lost, their other ends are missing as often.
    [[nodiscard]] bool is_matched() const { return matched >= least_matched * row_coverage; }

    bool is_possible = false;
    std::string reason;             // if not, why
    double observed_ms = 0;         // mean time of a step
    double replayed_ms = 0;         // the same, with the durations as they were
    double error = 0;               // replayed / observed - 1
    double hidden = 0;              // of the steps, that lost rows may have covered
    bool keeps_all_delays = false;  // whatever pieces waited for, they do so in every scenario
    bool has_stops = false;         // spans stop for communication inside of them, as far as that is estimated
    double coverage = 0;            // of the rows of all ranks, those that the graphs hold
    double row_coverage = 0;        // of the rows of the ranks that were recorded
    double unseen_ms = 0;           // of a step, that may be waiting for ranks that were not recorded: all transfers
    double matched = 0;             // of the communication of several ranks, that whose other ends are known
    std::size_t steps = 0;          // that were replayed
    std::size_t all_steps = 0;      // of which so many were chosen, if these are more
    double ideal_ms = 0;            // with typical durations
    double slowdown = 1;            // replayed / ideal
    LossShares shares;
    double slowest_ranks_share = 0;  // of the loss, that of the slowest 3 % of the ranks (M_W)
    double slowest_stage_share = 0;  // of the loss, that of one stage (M_S)
    bool stages_are_inferred = false;
    std::size_t stages = 1;
    std::size_t pipeline_length = 1;   // stages, as far as run rows or who waits for whom say
    double saving = 0;                 // of the time of the steps, without all stragglers and groups that cost enough
    bool peers_may_be_rested = false;  // these may owe part of what slow ranks exceed them by to their waiting
    bool any_loaded = false;           // ranks were slow because they have more of the work that is to be spread evenly
    /// By step: what all stragglers and groups cost it, whether that is much or little; NaN where some ranks have no
    /// rows.
    std::vector<std::pair<std::int64_t, double>> costs_ms;
};

/// What the findings cost, which are of stragglers and groups, if the replay holds; else their cost is left as it is.
/// Those whose ranks are not slow, but have more to do, are dropped. Adds what else makes steps longer. `left_out`:
/// steps, ascending, that are no steady training: none of them counts in any mean.
[[nodiscard]] Replay replay(const Job& job, std::size_t threads, std::span<const std::int64_t> left_out,
                            std::vector<Finding>& findings);

}  // namespace cep::tool
