// SPDX-License-Identifier: Apache-2.0
//
// Style: the style sheet of a page.
#pragma once

#include <string_view>

namespace cep::report {

[[nodiscard]] std::string_view page_style();

}  // namespace cep::report
