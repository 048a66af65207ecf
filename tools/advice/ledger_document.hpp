// SPDX-License-Identifier: Apache-2.0
//
// Ledger document: where the time went, as a table of a few lines and as JSON.
#pragma once

#include <string>
#include <vector>

#include "advice/losses.hpp"
#include "show/json_writer.hpp"
#include "show/table.hpp"

namespace cep::tool {

/// At most ten lines.
[[nodiscard]] Table ledger_table(const Ledger& ledger, const std::vector<TimeLoss>& losses);
/// Sentences about the mean and the typical step, and about steps that were not recorded.
[[nodiscard]] std::vector<std::string> describe_steps(const Ledger& ledger);
/// The value of the key "ledger".
void write_ledger(JsonWriter& json, const Ledger& ledger, const std::vector<TimeLoss>& losses);

}  // namespace cep::tool
