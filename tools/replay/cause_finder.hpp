// SPDX-License-Identifier: Apache-2.0
//
// Cause finder: what makes the steps of a job longer than they would be if it were even, and how much that costs.
#pragma once

#include "replay/replay.hpp"
#include "replay/replayer.hpp"
#include "replay/typical_work.hpp"

namespace cep::tool {

/// The correlation between the two phases with the most local work: of the same place in the same step of a rank, after
/// what the rank, the step and the place explain. Work that depends on the data makes both phases of a micro-batch
/// longer; jitter does not know micro-batches. The larger r² of single places and of sums over a step.
[[nodiscard]] double data_correlation(std::span<const StepGraph> graphs, const JobModel& model,
                                      const TypicalWork& typical);

/// Fills in everything but the first fields of the replay. `findings`: see replay().
void find_causes(std::span<const StepGraph> graphs, const JobModel& model, const TypicalWork& typical,
                 const Replayer& replayer, Replay& replay, std::vector<Finding>& findings);

}  // namespace cep::tool
