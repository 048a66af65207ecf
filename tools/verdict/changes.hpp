// SPDX-License-Identifier: Apache-2.0
//
// Changes: steps from which on everyone got slower or faster, and single steps that took much longer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "ledger/job_table.hpp"

namespace cep::tool {

/// A lasting change of the step time of the whole job.
struct ChangeFact {
    std::int64_t step = 0;  // the first one after the change
    double before_ms = 0;
    double after_ms = 0;
    std::string phase;  // which changed most: a local phase, or "communication"
    double phase_change_ms = 0;
};

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
