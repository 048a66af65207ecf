// SPDX-License-Identifier: Apache-2.0
//
// Text from files: escapes it for terminals and tables, and splits it.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
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

/// Texts or integers, with a separator between them.
template <typename Items>
[[nodiscard]] std::string join(const Items& items, std::string_view separator) {
    std::string text;
    bool is_first = true;
    for (const auto& item : items) {
        if (!std::exchange(is_first, false)) text += separator;
        if constexpr (std::is_integral_v<std::decay_t<decltype(item)>>)
            text += std::to_string(item);
        else
            text += item;
    }
    return text;
}

/// All of a text as a number; nothing for a text that is none, or is out of the type's range.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

namespace detail {

/// Compares the first and the last word of two texts, which are one to two words long: so the words cover them.
template <typename Word>
[[nodiscard]] inline bool same_ends(std::string_view a, std::string_view b) {
    const auto word_at = [](const char* text) {
        Word word;
        std::memcpy(&word, text, sizeof word);
        return word;
    };
    const std::size_t last = a.size() - sizeof(Word);
    return ((word_at(a.data()) ^ word_at(b.data())) | (word_at(a.data() + last) ^ word_at(b.data() + last))) == 0;
}

}  // namespace detail

/// Compares short texts in fewer instructions than a call of memcmp() takes.
[[nodiscard]] inline bool same_text(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    if (a.size() > 16) return std::memcmp(a.data(), b.data(), a.size()) == 0;
    if (a.size() >= 8) return detail::same_ends<std::uint64_t>(a, b);
    if (a.size() >= 4) return detail::same_ends<std::uint32_t>(a, b);
    return a.empty() || (a.front() == b.front() && a[a.size() / 2] == b[a.size() / 2] && a.back() == b.back());
}

}  // namespace cep::tool
