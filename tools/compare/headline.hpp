// SPDX-License-Identifier: Apache-2.0
//
// Headline: a comparison in a few sentences.
#pragma once

#include <string>
#include <vector>

#include "compare/comparison.hpp"

namespace cep::compare {

/// "B is 4.2 % faster a step [3.1, 5.3]: …".
[[nodiscard]] std::string describe_comparison(const Comparison& comparison);

/// What the verdicts of the two jobs differ in, a sentence each; none where one of them is not known.
[[nodiscard]] std::vector<std::string> describe_verdict_change(const VerdictFacts& a, const VerdictFacts& b);

/// What makes the two hard to compare: ranks that differ in number, steps that were added up.
[[nodiscard]] std::vector<std::string> describe_differences(const Comparison& comparison);

}  // namespace cep::compare
