// SPDX-License-Identifier: Apache-2.0
//
// A comparison in sentences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/comparison.hpp"

namespace cep::compare {

/// "Steps take 4.2 % less time in B (130.0 ms → 124.5 ms; 95 % interval 3.1 % to 5.3 %)."
[[nodiscard]] std::string describe_step(const Comparison& comparison);

/// "rank 5 in forward"; nothing where the verdict does not know.
[[nodiscard]] std::optional<std::vector<std::string>> name_stragglers(const tool::Verdict& verdict);

/// The phases that changed most, and how the verdict changed.
[[nodiscard]] std::vector<std::string> describe_reasons(const Comparison& comparison);

/// What makes the jobs hard to compare: different numbers of ranks, steps that are sums of phases.
[[nodiscard]] std::vector<std::string> describe_differences(const Comparison& comparison);

}  // namespace cep::compare
