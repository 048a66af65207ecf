// SPDX-License-Identifier: Apache-2.0
//
// Step picture: the time of the steps, and by how much ranks and phases exceed the work of the median rank.
#pragma once

#include <cstdint>
#include <vector>

#include "base/number_ranges.hpp"
#include "show/picture.hpp"
#include "verdict/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// Of a table with steps. `own_ms`: what each rank does in a step. `changes`: the first steps after lasting changes.
[[nodiscard]] StepPicture draw_steps(const JobTable& table, const StepMatrix& own_ms,
                                     const std::vector<PeerGroup>& groups, const NumberRanges& marks,
                                     const std::vector<std::int64_t>& changes);

}  // namespace cep::tool
