// SPDX-License-Identifier: Apache-2.0
//
// Page text: the style sheet of a page, and the script that makes its pictures explorable. Both are built from
// tools/report/page.
#pragma once

#include <string_view>

namespace cep::report {

struct PageText {
    std::string_view text;
    std::string_view sha256;  // in base64, as a content security policy names it
};

[[nodiscard]] PageText page_style();
[[nodiscard]] PageText page_script();

}  // namespace cep::report
