// SPDX-License-Identifier: Apache-2.0
//
// Replay: what each step of a job would have taken with other durations of its work. The steps' dependency graphs are
// found in the rows: what each piece of work waited for, on its rank and in collectives. A replay with the durations as
// they were must give the time that was observed; with typical ones it gives the time of an even job. The questions are
// those of "Understanding Stragglers in Large Model Training Using What-if Analysis" (2025).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.hpp"

namespace cep::tool {

enum class CauseKind : std::uint8_t {
    ranks,
    host,
    stage,
    micro_batches,
    jitter,
    communication,
    link,
    loader,
    routing,
    pauses
};
[[nodiscard]] std::string_view cause_name(CauseKind kind);

/// Something that makes steps longer than they would be if the job were even.
struct Cause {
    CauseKind kind = CauseKind::ranks;
    std::vector<std::int64_t> ranks{};  // CauseKind::ranks, host: these; stage, link: its ranks
    std::string host{};
    std::optional<std::int64_t> stage{};
    std::string phase{};  // where most of it is; "" if not known
    double cost_ms = 0;   // of a step
    double slowdown = 1;  // time of the steps / what it would be without this
    double share = 0;     // of what would be gained if the job were even, its sources being evened out in turn
    // CauseKind::link: a transfer of other groups, and there. CauseKind::loader: in other steps, and in these.
    // CauseKind::routing: routed work of a rank, the mean, and that of the rank with the most. CauseKind::pauses: 0,
    // and a pause.
    std::optional<double> usual_ms{};
    std::optional<double> slow_ms{};
    std::uint64_t other_groups = 0;                // CauseKind::link: of the same size
    std::optional<std::int64_t> every_steps{};     // CauseKind::loader
    std::optional<std::int64_t> every_recorded{};  // the same in recorded steps
};

/// Parts of what would be gained if the job were even, which add up to 1: its sources evened out one after the other.
struct LossShares {
    double communication = 0;
    double within_ranks = 0;  // from micro-batch to micro-batch and step to step
    double ranks = 0;         // between ranks of a role
    double stages = 0;
};

/// Ranks that are slow together, and what steps would gain if they worked as their peers do.
struct Suspects {
    std::vector<std::int64_t> ranks;
    bool are_stragglers = false;  // whatever the replay says
    bool are_routed = false;      // they have more of the work that ranks send each other, and are not slow
    bool are_stage = false;       // they are all of a pipeline stage: nobody does the same work
    double saving = 0;            // of the time of the steps, if these were the only ones
};

struct Replay {
    static constexpr double most_error = 0.01;
    static constexpr double most_error_at_all = 0.05;  // with more, nothing is said of causes
    static constexpr double least_coverage = 0.75;
    static constexpr double least_matched = 0.5;
    static constexpr double most_unseen = 0.5;  // of what a cause costs
    static constexpr double least_cost = 0.01;  // of a step: what costs less is not named

    /// Whether the steps could be replayed, and took as long as was observed.
    [[nodiscard]] bool holds() const { return is_usable() && error <= most_error && error >= -most_error; }
    /// Whether they took about as long.
    [[nodiscard]] bool is_usable() const {
        return is_possible && error <= most_error_at_all && error >= -most_error_at_all &&
               row_coverage >= least_coverage && matched >= least_matched;
    }

    bool is_possible = false;
    std::string reason;         // if not, why
    double observed_ms = 0;     // mean time of a step
    double replayed_ms = 0;     // the same, with the durations as they were
    double error = 0;           // replayed / observed - 1
    double coverage = 0;        // of the rows of all ranks, those that the graphs hold
    double row_coverage = 0;    // of the rows of the ranks that were recorded
    bool has_delays = true;     // it needs time that no row covers to take as long as was observed
    double unseen_ms = 0;       // of a step, that may be waiting for ranks that were not recorded: all transfers
    double matched = 0;         // of the communication of several ranks, that whose other ends are known
    std::size_t steps = 0;      // that were replayed
    std::size_t all_steps = 0;  // of which so many were chosen, if these are more
    double ideal_ms = 0;        // with typical durations
    double slowdown = 1;        // replayed / ideal
    LossShares shares;
    double slowest_ranks_share = 0;  // of the loss, that of the slowest 3 % of the ranks (M_W)
    double slowest_stage_share = 0;  // of the loss, that of one stage (M_S)
    bool ranks_persist = false;      // ranks differ by more than their steps do
    bool stages_are_inferred = false;
    std::size_t stages = 1;
    std::size_t ranks_a_stage = 0;   // of the smallest
    std::vector<Cause> causes;       // by cost
    std::vector<Suspects> suspects;  // in the order in which they were given
    double suspects_saving = 0;      // without all that are stragglers or cost enough
};

/// A pure function of the job, and of who is to be looked at.
[[nodiscard]] Replay replay(const Job& job, std::size_t threads, std::vector<Suspects> suspects);

}  // namespace cep::tool
