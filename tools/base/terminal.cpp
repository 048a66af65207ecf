// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

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

}  // namespace cep::tool
