// SPDX-License-Identifier: Apache-2.0
//
// Summary text: a summary as people and programs read it.
#pragma once

#include <string>

#include "summary/summary.hpp"

namespace cep::tool {

/// `limit`: how many lines of groups at most, 0 for all.
[[nodiscard]] std::string summary_text(const SummaryResult& result, std::size_t limit, bool colors);
[[nodiscard]] std::string summary_json(const SummaryResult& result);
[[nodiscard]] std::string summary_csv(const SummaryResult& result);
[[nodiscard]] std::string summary_markdown(const SummaryResult& result, std::size_t limit);

}  // namespace cep::tool
