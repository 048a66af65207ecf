// SPDX-License-Identifier: Apache-2.0
//
// Prices of slow ranks: what each costs alone, and all together.
#pragma once

#include <optional>
#include <vector>

#include "replay/even_job.hpp"
#include "replay/replay.hpp"
#include "replay/replayed_steps.hpp"

namespace cep::tool {

/// Drops those of `slow`, which are stragglers and groups, that are not slow, but have more of the work that is to be
/// spread evenly: that of a stage all of whose ranks are slow, if `has_stage`; or routed work, if `is_routed` (by key)
/// is not empty. Returns all that cost enough together, if any do, with what that is in the replay's `saving`.
[[nodiscard]] std::optional<Finding> price_slow_ranks(const ReplayedSteps& steps, const EvenJob& job, bool has_stage,
                                                      const std::vector<bool>& is_routed, std::vector<Finding>& slow,
                                                      Replay& replay);

}  // namespace cep::tool
