// SPDX-License-Identifier: Apache-2.0
//
// Terminals: whether there is one, how wide it is, and how many of its columns a text takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cep::tool {

/// Whether a descriptor is a terminal that shows colours and moves its cursor, which TERM=dumb denies.
[[nodiscard]] bool is_terminal(int descriptor);

/// COLUMNS, else the width of the terminal on standard output, else 80.
[[nodiscard]] std::size_t output_columns();

/// The width of texts: that of the output, from 40 to 100.
[[nodiscard]] std::size_t text_columns();

/// Whether the locale's characters are UTF-8, by LC_ALL, LC_CTYPE and LANG. It need not be installed.
[[nodiscard]] bool locale_is_utf8();

/// `text`: from printable(). East Asian wide characters and emoji take two columns, combining marks none.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The text, or its beginning and `end` where it is wider than `columns`. `end` takes one column.
[[nodiscard]] std::string cut_to_width(std::string_view text, std::size_t columns, std::string_view end);

/// The text in lines of at most `columns`, broken between words; as it is where these are fewer than 40. The first line
/// begins at `indent`, the others are indented by it.
[[nodiscard]] std::string wrap_to_width(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace cep::tool
