// SPDX-License-Identifier: Apache-2.0
//
// JSON on the trainer's thread: validation and escaping without allocation. (cJSON allocates, and accepts
// control characters and invalid UTF-8, which would break the line they are written to.)
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace cep::json {

struct Check {
    bool valid;
    std::size_t offset;  ///< where it stopped, in bytes
    const char* reason;  ///< why, when not valid
};

/// Whether `text` is exactly one JSON object (RFC 8259, UTF-8), white space around it allowed. It must be one that
/// every reader takes: at most 64 levels deep, integers within 64 bits (from -2^63 to 2^64-1), other numbers within the
/// range of doubles, and no lone surrogates.
[[nodiscard]] Check check_object(std::string_view text) noexcept;

/// Calls `visit(key, value)` for each member of a valid object, both as their JSON text (the key with its quotes).
void for_each_member(std::string_view object,
                     const std::function<void(std::string_view key, std::string_view value)>& visit);

/// Calls `visit(value)` for each element of a valid array, as its JSON text, until it returns false.
void for_each_element(std::string_view array, const std::function<bool(std::string_view value)>& visit);

/// Number of bytes of well-formed UTF-8 at the front of `text`'s first character; 0 if it is malformed.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

/// Whether `text` is well-formed UTF-8 without control characters.
[[nodiscard]] bool is_plain_text(std::string_view text) noexcept;

/// Appends `text` as a JSON string, quotes included; malformed UTF-8 becomes U+FFFD.
void append_string(std::string& out, std::string_view text);

}  // namespace cep::json
