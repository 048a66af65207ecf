// SPDX-License-Identifier: Apache-2.0
//
// Text that comes from files: made fit for terminals and tables, and cut into pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cep::tool {

/// Bytes of the UTF-8 sequence at the front of a text that is not empty; 0 if the bytes there are not UTF-8.
[[nodiscard]] std::size_t utf8_size(std::string_view text);

/// The text with everything replaced that a terminal would obey instead of show: control characters (C0, DEL, C1) and
/// marks that change the direction of writing become "?", bytes that are not UTF-8 become U+FFFD. Every text output
/// passes through here once.
[[nodiscard]] std::string printable(std::string_view text);
/// The same, but newlines stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// The parts between separators: one more than there are separators.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace cep::tool
