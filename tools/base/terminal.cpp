// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "base/text.hpp"

namespace cep::tool {
namespace {

std::size_t asked_columns() {
    const char* const variable = std::getenv("COLUMNS");
    const std::string_view text = variable == nullptr ? "" : variable;
    std::size_t columns = 0;
    std::from_chars(text.data(), text.data() + text.size(), columns);
    return columns;
}

std::size_t terminal_columns() {
    struct winsize size {};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

bool is_terminal(int descriptor) {
    const char* const terminal = std::getenv("TERM");
    return terminal != nullptr && std::string_view(terminal) != "dumb" && ::isatty(descriptor) != 0;
}

std::size_t output_columns() {
    constexpr std::size_t usual = 80;
    std::size_t columns = asked_columns();
    if (columns == 0) columns = terminal_columns();
    return columns == 0 ? usual : columns;
}

std::size_t text_columns() {
    constexpr std::size_t least = 40;
    constexpr std::size_t most = 100;
    return std::clamp(output_columns(), least, most);
}

bool locale_is_utf8() {
    for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const char* const value = std::getenv(name);
        if (value == nullptr || *value == '\0') continue;
        std::string locale(value);
        for (char& c : locale) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
    return false;
}

namespace {

struct CodePoints {
    std::uint32_t first;
    std::uint32_t last;
};

// Whole blocks of Unicode 15 (EastAsianWidth.txt: W and F), so that a few unassigned code points count as wide.
constexpr CodePoints wide[] = {{0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2e80, 0x303e},
                               {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
                               {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                               {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x17000, 0x18cff}, {0x1b000, 0x1b2ff},
                               {0x1f18e, 0x1f19a}, {0x1f200, 0x1f265}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
                               {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};

// Combining marks that go with any script, joiners and variation selectors.
constexpr CodePoints no_width[] = {{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x064b, 0x065f},
                                   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200d}, {0x20d0, 0x20ff},
                                   {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0100, 0xe01ef}};

template <std::size_t count>
bool is_in(const CodePoints (&ranges)[count], std::uint32_t code_point) {
    return std::any_of(std::begin(ranges), std::end(ranges), [code_point](const CodePoints& range) {
        return range.first <= code_point && code_point <= range.last;
    });
}

std::uint32_t code_point_of(std::string_view sequence) {
    const auto lead = static_cast<unsigned char>(sequence.front());
    if (sequence.size() == 1) return lead;
    std::uint32_t code_point = lead & (0x7fU >> sequence.size());
    for (const char c : sequence.substr(1)) code_point = code_point << 6U | (static_cast<unsigned char>(c) & 0x3fU);
    return code_point;
}

std::size_t width_of(std::string_view sequence) {
    const std::uint32_t code_point = code_point_of(sequence);
    if (code_point < 0x300 || !is_in(no_width, code_point)) return is_in(wide, code_point) ? 2 : 1;
    return 0;
}

}  // namespace

std::size_t display_width(std::string_view text) {
    std::size_t width = 0;
    while (!text.empty()) width += width_of(take_character(text));
    return width;
}

std::string cut_to_width(std::string_view text, std::size_t columns, std::string_view end) {
    if (display_width(text) <= columns) return std::string(text);
    if (columns == 0) return {};
    std::string shown;
    std::size_t width = 0;
    while (!text.empty()) {
        const std::string_view character = take_character(text);
        width += width_of(character);
        if (width >= columns) break;
        shown += character;
    }
    return shown.append(end);
}

std::string wrap_to_width(std::string_view text, std::size_t indent, std::size_t columns) {
    constexpr std::size_t least_wrapped = 40;  // less is not worth breaking lines for
    if (columns < least_wrapped) return std::string(text);
    std::string wrapped;
    std::size_t column = indent;
    for (const std::string_view word : split(text, ' ')) {
        const std::size_t width = display_width(word);
        if (!wrapped.empty() && column + 1 + width > columns) {
            wrapped.append(1, '\n').append(indent, ' ');
            column = indent;
        } else if (!wrapped.empty()) {
            wrapped += ' ';
            ++column;
        }
        wrapped += word;
        column += width;
    }
    return wrapped;
}

}  // namespace cep::tool
