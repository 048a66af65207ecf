// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <algorithm>

namespace cep::tool {
namespace {

constexpr std::string_view replacement_character = "\xef\xbf\xbd";

unsigned byte_at(std::string_view text, std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

/// Whether a terminal obeys this UTF-8 sequence: U+0000–1F, 7F, 80–9F, and Unicode's marks of direction (061C, 200E,
/// 200F, 202A–202E, 2066–2069) and line ends (2028, 2029).
bool is_obeyed(std::string_view sequence) {
    const unsigned lead = byte_at(sequence, 0);
    const unsigned second = byte_at(sequence, 1);
    const unsigned third = byte_at(sequence, 2);
    if (sequence.size() == 1) return lead < 0x20 || lead == 0x7f;
    if (sequence.size() == 2) return (lead == 0xc2 && second < 0xa0) || (lead == 0xd8 && second == 0x9c);
    if (lead != 0xe2) return false;
    if (second == 0x80) return third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae);
    return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

std::string escape(std::string_view text, bool keeps_newlines) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::string_view character = take_character(text);
        if (utf8_size(character) == 0) {
            result += replacement_character;
        } else if (is_obeyed(character) && !(keeps_newlines && character == "\n")) {
            result += '?';
        } else {
            result += character;
        }
    }
    return result;
}

}  // namespace

// The ranges of Unicode's table 3-7.
std::size_t utf8_size(std::string_view text) {
    const unsigned lead = byte_at(text, 0);
    if (lead < 0x80) return 1;
    const std::size_t size = lead >= 0xf0 ? 4 : (lead >= 0xe0 ? 3 : 2);
    if (lead < 0xc2 || lead > 0xf4) return 0;
    const unsigned lowest = lead == 0xe0 ? 0xa0 : (lead == 0xf0 ? 0x90 : 0x80);
    const unsigned highest = lead == 0xed ? 0x9f : (lead == 0xf4 ? 0x8f : 0xbf);
    if (byte_at(text, 1) < lowest || byte_at(text, 1) > highest) return 0;
    for (std::size_t i = 2; i < size; ++i)
        if (byte_at(text, i) < 0x80 || byte_at(text, i) > 0xbf) return 0;
    return size;
}

std::string_view take_character(std::string_view& text) {
    const std::string_view character = text.substr(0, std::max<std::size_t>(utf8_size(text), 1));
    text.remove_prefix(character.size());
    return character;
}

std::string printable(std::string_view text) {
    return escape(text, false);
}

std::string printable_lines(std::string_view text) {
    return escape(text, true);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

}  // namespace cep::tool
