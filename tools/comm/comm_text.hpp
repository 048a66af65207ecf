// SPDX-License-Identifier: Apache-2.0
//
// Comm reports for people, and for programs.
#pragma once

#include <cstddef>
#include <string>

#include "comm/comm_report.hpp"

namespace cep::comm {

/// `limit`: how many lines of each table at most, 0 for all.
[[nodiscard]] std::string report_text(const CommReport& report, std::size_t limit, bool colors);
[[nodiscard]] std::string report_markdown(const CommReport& report, std::size_t limit);
/// A line for each size of each model, and one for a model without sizes.
[[nodiscard]] std::string report_csv(const CommReport& report);
/// Schema cep.comm/1.
[[nodiscard]] std::string report_json(const CommReport& report);

}  // namespace cep::comm
