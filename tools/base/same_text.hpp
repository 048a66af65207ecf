// SPDX-License-Identifier: Apache-2.0
//
// Same text: compares short texts in fewer instructions than a call of memcmp() takes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace cep::tool {

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

[[nodiscard]] inline bool same_text(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    if (a.size() > 16) return std::memcmp(a.data(), b.data(), a.size()) == 0;
    if (a.size() >= 8) return detail::same_ends<std::uint64_t>(a, b);
    if (a.size() >= 4) return detail::same_ends<std::uint32_t>(a, b);
    return a.empty() || (a.front() == b.front() && a[a.size() / 2] == b[a.size() / 2] && a.back() == b.back());
}

}  // namespace cep::tool
