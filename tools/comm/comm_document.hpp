// SPDX-License-Identifier: Apache-2.0
//
// Comm document: a comm report as people and programs read it.
#pragma once

#include "comm/comm_report.hpp"
#include "show/document.hpp"

namespace cep::comm {

/// JSON has schema cep.comm/1. CSV has a line for each size of each model, and one for a model without sizes.
[[nodiscard]] tool::Document make_document(CommReport report);

}  // namespace cep::comm
