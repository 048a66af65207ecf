// SPDX-License-Identifier: Apache-2.0
//
// Partial format: how to recognise a partial summary. The format is in cep-partial(5).
#pragma once

#include <string_view>

namespace cep::tool {

/// Every partial summary begins with these bytes.
inline constexpr std::string_view partial_first_bytes = R"({"type":"partial",)";

/// Whether a file that begins with this line is a partial summary.
[[nodiscard]] constexpr bool begins_partial(std::string_view first_line) {
    return first_line.starts_with(partial_first_bytes);
}

}  // namespace cep::tool
