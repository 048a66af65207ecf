// SPDX-License-Identifier: Apache-2.0
//
// Text from files: escapes it for terminals and tables, and splits it.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cep::tool {

/// The size of the UTF-8 sequence that begins a text, which is not empty; 0 if it begins with other bytes.
[[nodiscard]] std::size_t utf8_size(std::string_view text);

/// Takes the first character off a text, which is not empty: a UTF-8 sequence, or one byte that begins none.
[[nodiscard]] std::string_view take_character(std::string_view& text);

/// Replaces what a terminal would obey instead of show: control characters (C0, DEL, C1) and marks that change the
/// direction of writing become "?", bytes that are not UTF-8 become U+FFFD. Every text for people passes through here
/// once.
[[nodiscard]] std::string printable(std::string_view text);
/// The same, but newlines stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// The parts between separators: one more than there are separators.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// All of a text as a number; nothing for a text that is none, or is out of the type's range.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace cep::tool
