// SPDX-License-Identifier: Apache-2.0
//
// Step picture: the time of the steps, and by how much ranks and phases exceed the work of the median rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "ledger/job_table.hpp"
#include "show/picture.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// What the picture points at.
struct StepNotes {
    NumberRanges marks;                 // steps with a mark row
    std::vector<std::int64_t> changes;  // the first steps after lasting changes
    std::vector<std::string> phases;    // shown however short they usually are
};

/// For a table with steps. `own_ms`: what each rank does in a step.
[[nodiscard]] StepPicture draw_steps(const JobTable& table, const StepMatrix& own_ms,
                                     const std::vector<PeerGroup>& groups, const StepNotes& notes);

}  // namespace cep::tool
