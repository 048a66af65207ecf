// SPDX-License-Identifier: Apache-2.0
//
// Messages on standard error. All of them go through here.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace cep::tool {

/// Writes a message, which ends with a newline, to standard error. Control characters in it are escaped, see
/// printable(). A closed or full standard error loses the message and nothing else. Thread-safe.
void say_text(std::string_view message) noexcept;

/// The same without escaping: for a progress bar, which moves the cursor.
void show_status(std::string_view text) noexcept;

/// A formatted message.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) noexcept {
    try {
        say_text(fmt::format(format, std::forward<Arguments>(arguments)...));
    } catch (...) {
        say_text("cep: not enough memory for a message\n");
    }
}

/// Opens /dev/null in place of each standard descriptor that is closed, so that no file opened later becomes standard
/// output by accident. Reading or writing it fails, as with the closed one. Call it first.
void fill_standard_descriptors() noexcept;

}  // namespace cep::tool
