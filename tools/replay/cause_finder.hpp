// SPDX-License-Identifier: Apache-2.0
//
// Cause finder: what makes the steps of a job longer than they would be if it were even, and how much that costs.
#pragma once

#include <vector>

#include "replay/replay.hpp"
#include "replay/replayed_steps.hpp"

namespace cep::tool {

/// Fills in everything but the first fields of the replay. `findings`: see replay().
void find_causes(const ReplayedSteps& steps, Replay& replay, std::vector<Finding>& findings);

}  // namespace cep::tool
