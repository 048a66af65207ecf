// SPDX-License-Identifier: Apache-2.0
//
// Certainty: how sure a verdict's headline is, in words. Text and page say the same.
#pragma once

#include <string>

#include "verdict/verdict.hpp"

namespace cep::tool {

/// "almost certain: …", a sentence without a full stop; "" where the headline names nothing, or nothing is known of it.
[[nodiscard]] std::string describe_certainty(const Verdict& verdict);

}  // namespace cep::tool
