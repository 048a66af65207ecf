// SPDX-License-Identifier: Apache-2.0
//
// Fail conditions: findings that a job may not have.
#pragma once

#include <string>
#include <vector>

#include "verdict/verdict.hpp"

namespace cep::tool {

/// "straggler", "imbalance", "change", "abstained" or "bound:comm".
using FailCondition = std::string;

/// Each text is one condition or several with commas between them. Throws UsageError.
[[nodiscard]] std::vector<FailCondition> parse_fail_conditions(const std::vector<std::string>& texts);
[[nodiscard]] bool is_in(const FailCondition& condition, const Verdict& verdict);

}  // namespace cep::tool
