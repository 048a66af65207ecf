// SPDX-License-Identifier: Apache-2.0
//
// JSON on the trainer's thread: validation and escaping without allocation. cJSON allocates. It also accepts control
// characters and invalid UTF-8, which would break the row they are written to.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace cep::json {

struct Check {
    bool valid;
    std::size_t offset;  ///< where the check stopped, in bytes
    const char* reason;  ///< why the text is not valid
};

/// Whether `text` is exactly one JSON object (RFC 8259, UTF-8), with optional white space around it. It must be one
/// that every reader accepts: at most 64 levels deep, integers within 64 bits (from -2^63 to 2^64-1), other numbers
/// within the range of doubles, and no lone surrogates.
[[nodiscard]] Check check_object(std::string_view text) noexcept;

/// Calls `visit(key, value)` for each member of a valid object. Both are JSON text; the key has its quotes.
void for_each_member(std::string_view object,
                     const std::function<void(std::string_view key, std::string_view value)>& visit);

/// Calls `visit(value)` for each element of a valid array, as its JSON text, until it returns false.
void for_each_element(std::string_view array, const std::function<bool(std::string_view value)>& visit);

/// Number of bytes of the first UTF-8 character of `text`; 0 if it is malformed.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

/// Whether `text` is well-formed UTF-8 without control characters.
[[nodiscard]] bool is_plain_text(std::string_view text) noexcept;

/// Appends `text` as a JSON string, quotes included; malformed UTF-8 becomes U+FFFD.
void append_string(std::string& out, std::string_view text);

}  // namespace cep::json
