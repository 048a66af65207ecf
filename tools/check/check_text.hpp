// SPDX-License-Identifier: Apache-2.0
//
// Check text: the findings of a check as people and programs read them.
#pragma once

#include <string>

#include "check/checker.hpp"

namespace cep::tool {

[[nodiscard]] std::string check_text(const CheckResult& result, bool colors);
[[nodiscard]] std::string check_json(const CheckResult& result);

}  // namespace cep::tool
