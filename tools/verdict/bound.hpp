// SPDX-License-Identifier: Apache-2.0
//
// Bound: what a step's time goes to on the median rank.
#pragma once

#include <optional>

#include "verdict/job_table.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// None where steps have no time, or no phases.
[[nodiscard]] std::optional<StepShares> find_shares(const JobTable& table);
[[nodiscard]] Bound bound_of(const StepShares& shares);

}  // namespace cep::tool
