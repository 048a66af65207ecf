// SPDX-License-Identifier: Apache-2.0
//
// Check document: the findings of a check as people and programs read them.
#pragma once

#include "check/job_check.hpp"
#include "show/document.hpp"

namespace cep::tool {

/// JSON has schema cep.check/1. CSV has a line for each file.
[[nodiscard]] Document make_document(CheckResult result);

}  // namespace cep::tool
