// SPDX-License-Identifier: Apache-2.0
//
// Script: what makes the pictures of a page explorable, built from tools/report/page.
#pragma once

#include <string_view>

namespace cep::tool {

/// The bundle; "" in a build without npm.
[[nodiscard]] std::string_view report_script();

}  // namespace cep::tool
