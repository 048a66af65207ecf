// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
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

std::size_t text_columns() {
    constexpr std::size_t least = 40;
    constexpr std::size_t usual = 80;
    constexpr std::size_t most = 100;
    std::size_t columns = asked_columns();
    if (columns == 0) columns = terminal_columns();
    return std::clamp(columns == 0 ? usual : columns, least, most);
}

}  // namespace cep::tool
