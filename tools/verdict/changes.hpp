// SPDX-License-Identifier: Apache-2.0
//
// Changes: steps from which on everyone got slower or faster, and single steps that took much longer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "ledger/job_table.hpp"
#include "replay/finding.hpp"

namespace cep::tool {

/// "from step 200 on everyone's step takes 110 ms instead of 100 ms (+10.0 %)", of a job of so many ranks.
[[nodiscard]] std::string describe_change(const Finding& change, std::uint64_t ranks);
/// The same for a headline, of a change to longer steps: "every step from 200 on takes 10 % longer".
[[nodiscard]] std::string headline_of_change(const Finding& change);

/// Steps that took much longer than their neighbours, and are too few for a change.
struct EventFacts {
    std::vector<std::int64_t> marked_steps;  // with a mark row: checkpoints, evaluations
    std::vector<std::int64_t> unmarked_steps;
    double marked_excess_ms = 0;  // in all
    double unmarked_share = 0;    // of the time of all steps, by which those exceed their neighbours
    double unmarked_excess_ms = 0;
    std::string unmarked_phase{};  // a local one, which has most of it; empty if none has
};

/// `straggler_ms`: what stragglers cost each step, which is no change of the job. `marks`: the steps that have a mark
/// row. Adds the changes to the findings.
[[nodiscard]] EventFacts find_history(const JobTable& table, const std::vector<double>& straggler_ms,
                                      const NumberRanges& marks, std::vector<Finding>& findings);

}  // namespace cep::tool
