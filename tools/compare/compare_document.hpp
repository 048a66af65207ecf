// SPDX-License-Identifier: Apache-2.0
//
// Compare document: a comparison as people and programs read it.
#pragma once

#include "compare/comparison.hpp"
#include "show/document.hpp"

namespace cep::compare {

/// JSON has schema cep.compare/1. CSV has a line for the step and one for each phase.
[[nodiscard]] tool::Document make_document(Comparison comparison);

}  // namespace cep::compare
