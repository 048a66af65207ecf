// SPDX-License-Identifier: Apache-2.0
//
// Comm document: a comm report as people and programs read it.
#pragma once

#include "comm/comm_report.hpp"
#include "show/document.hpp"

namespace cep::comm {

/// What a report leaves out, in one sentence; "" where it leaves out nothing.
[[nodiscard]] std::string describe_left_out(const CommReport& report);

/// A line for each operation and kind of group; `columns`: see choose().
[[nodiscard]] tool::Table model_table(const CommReport& report, std::string_view columns);

/// JSON has schema cep.comm/1. CSV has a line for each size of each model, and one for a model without sizes. The
/// document has the tables that `format` needs.
[[nodiscard]] tool::Document make_document(CommReport report, tool::Format format);

}  // namespace cep::comm
