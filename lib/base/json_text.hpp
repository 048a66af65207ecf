// SPDX-License-Identifier: Apache-2.0
//
// JSON texts, checked and written without allocation, because spans bring metadata on the trainer's thread. cJSON makes
// 4 to 26 allocations for such an object and takes 4 to 7 times as long (0.5 to 1.5 µs). It also accepts what breaks
// the row that it is written to (control characters, invalid UTF-8, 01, 1., 1e309), and loses integers beyond 2^53 and
// all after a \u0000. So this checks each text and keeps it as it is; cJSON reads the values of options in checked
// texts.
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

/// Number of bytes of the first UTF-8 character of `text`; 0 if it is malformed.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

/// Whether `text` is well-formed UTF-8 without control characters (U+0000 to U+001F, U+007F to U+009F).
[[nodiscard]] bool is_plain_text(std::string_view text) noexcept;

/// Appends `text` as a JSON string, quotes included; malformed UTF-8 becomes U+FFFD.
void append_string(std::string& out, std::string_view text);

}  // namespace cep::json
