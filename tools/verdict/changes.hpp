// SPDX-License-Identifier: Apache-2.0
//
// Changes: steps from which on everyone got slower or faster, and single steps that took much longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "ledger/job_table.hpp"
#include "stats/change_points.hpp"

namespace cep::tool {

/// A change of the step time of the whole job, from start to end.
struct ChangeFact {
    std::int64_t step = 0;       // the first one after the change; of a ramp the first on it
    std::int64_t last_step = 0;  // of a burst its last one; of a stair or ramp the first one after it; else `step`
    ChangeShape shape = ChangeShape::step;
    std::size_t stairs = 1;
    bool is_typical = true;  // the median step changed; else the share of long steps, and with it the mean
    double before_ms = 0;    // medians, or means
    double after_ms = 0;
    double long_share_before = 0;  // of the steps: those over 1.25 times the median before
    double long_share_after = 0;
    std::string phase;  // which changed most: a local phase, or "communication"
    double phase_change_ms = 0;

    /// By which share steps are longer than before.
    [[nodiscard]] double relative() const { return after_ms / before_ms - 1; }
};

/// "from step 200 on everyone's step takes 110 ms instead of 100 ms (+10.0 %)", of a job of so many ranks.
[[nodiscard]] std::string describe_change(const ChangeFact& change, std::uint64_t ranks);
/// The same for a headline, of a change to longer steps: "every step from 200 on takes 10 % longer".
[[nodiscard]] std::string headline_of_change(const ChangeFact& change);

/// Steps that took much longer than their neighbours, and are too few for a change.
struct EventFacts {
    std::vector<std::int64_t> marked_steps;  // with a mark row: checkpoints, evaluations
    std::vector<std::int64_t> unmarked_steps;
    double marked_excess_ms = 0;  // in all
    double unmarked_share = 0;    // of the time of all steps, by which those exceed their neighbours
    double unmarked_excess_ms = 0;
    std::string unmarked_phase{};  // a local one, which has most of it; empty if none has
};

struct JobHistory {
    std::vector<ChangeFact> changes;
    EventFacts events;
};

/// `straggler_ms`: what stragglers cost each step, which is no change of the job. `marks`: the steps that have a mark
/// row.
[[nodiscard]] JobHistory find_history(const JobTable& table, const std::vector<double>& straggler_ms,
                                      const NumberRanges& marks);

}  // namespace cep::tool
