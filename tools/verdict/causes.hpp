// SPDX-License-Identifier: Apache-2.0
//
// Causes: what makes steps longer besides slow ranks, and how that is said.
#pragma once

#include <string>
#include <string_view>

#include "show/document.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// The costliest cause that is worth a headline; nullptr if there is none.
[[nodiscard]] const Finding* top_cause(const Verdict& verdict);
/// The same, if it is not that ranks are slow, and the verdict does not abstain.
[[nodiscard]] const Finding* headline_cause(const Verdict& verdict);
/// "" without such a cause.
[[nodiscard]] std::string headline_of_cause(const Verdict& verdict);

/// "without it, steps would take 22 % less time (130.0 → 101.4 ms)", of a saving of this share of a step.
[[nodiscard]] std::string describe_saving(const Verdict& verdict, std::string_view without, Precision precision,
                                          double share);

/// With a capital in front.
[[nodiscard]] std::string capitalised(std::string text);

/// Evidence, and what to do.
void add_causes(Document& document, const Verdict& verdict);
/// The keys "replay" and "causes".
void write_causes(JsonWriter& json, const Verdict& verdict);

}  // namespace cep::tool
