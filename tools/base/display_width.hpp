// SPDX-License-Identifier: Apache-2.0
//
// Display width: how many columns of a terminal a text takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cep::tool {

/// `text`: from printable(). East Asian wide characters and emoji take two columns, combining marks none.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The text, or its beginning and `end` where it is wider than `columns`. `end` takes one column.
[[nodiscard]] std::string cut_to_width(std::string_view text, std::size_t columns, std::string_view end);

/// The text in lines of at most `columns`, broken between words; as it is where these are fewer than 40. The first line
/// begins at `indent`, the others are indented by it.
[[nodiscard]] std::string wrap_to_width(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace cep::tool
