// SPDX-License-Identifier: Apache-2.0
//
// Estimate document: an estimate for people and programs.
#pragma once

#include "estimate/estimate.hpp"
#include "show/document.hpp"

namespace cep::estimate {

/// `measured` is the name of the job whose figures stand beside the estimate; "" for none.
[[nodiscard]] tool::Document make_document(Estimate estimate, const std::string& measured);

}  // namespace cep::estimate
