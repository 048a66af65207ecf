// SPDX-License-Identifier: Apache-2.0
//
// Sentences: what a comparison says in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/comparison.hpp"

namespace cep::compare {

/// A setting that both jobs have with other values, or one of them.
struct SettingChange {
    std::string name;
    std::string a;  // "not set" where it has none
    std::string b;
};
/// None where a job was recorded without its settings.
[[nodiscard]] std::vector<SettingChange> changed_settings(const tool::Settings& a, const tool::Settings& b);

/// What changed: "Steps take 4.2 % less time in B (130.0 → 124.5 ms a step; 95 % interval 3.1 % to 5.3 %)."
[[nodiscard]] std::string describe_step(const Comparison& comparison);

/// Where the change comes from: settings that differ, pieces of the ledger, typical step and tail, the phases that
/// changed most, the verdict.
[[nodiscard]] std::vector<std::string> describe_reasons(const Comparison& comparison);

/// "rank 5 in forward"; nothing where the verdict does not know.
[[nodiscard]] std::optional<std::vector<std::string>> name_stragglers(const tool::Verdict& verdict);

}  // namespace cep::compare
