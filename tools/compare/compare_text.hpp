// SPDX-License-Identifier: Apache-2.0
//
// Comparisons for people, and for programs.
#pragma once

#include <string>

#include "compare/comparison.hpp"

namespace cep::compare {

[[nodiscard]] std::string comparison_text(const Comparison& comparison, bool colors);
[[nodiscard]] std::string comparison_markdown(const Comparison& comparison);
/// A line for the step and each phase, times in milliseconds, changes as fractions.
[[nodiscard]] std::string comparison_csv(const Comparison& comparison);
/// Schema cep.compare/1.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

}  // namespace cep::compare
