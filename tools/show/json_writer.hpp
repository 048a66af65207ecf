// SPDX-License-Identifier: Apache-2.0
//
// JSON writer: indented JSON text, one value at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cep::tool {

/// Appends a JSON string. What is not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

class JsonWriter {
  public:
    JsonWriter& begin_object() { return open('{'); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& begin_array() { return open('['); }
    JsonWriter& end_array() { return close(']'); }
    JsonWriter& key(std::string_view name);

    JsonWriter& string(std::string_view value);
    JsonWriter& integer(std::int64_t value);
    JsonWriter& count(std::uint64_t value);
    /// The shortest text that reads back as the same number; null for infinities and NaN.
    JsonWriter& number(double value);
    JsonWriter& boolean(bool value);
    JsonWriter& null();
    JsonWriter& integer_or_null(const std::optional<std::int64_t>& value) { return value ? integer(*value) : null(); }
    JsonWriter& count_or_null(const std::optional<std::uint64_t>& value) { return value ? count(*value) : null(); }
    JsonWriter& string_or_null(std::string_view value) { return value.empty() ? null() : string(value); }
    JsonWriter& number_or_null(const std::optional<double>& value) { return value ? number(*value) : null(); }
    /// On one line.
    JsonWriter& integers(const std::vector<std::int64_t>& values);

    /// The text, with a final newline.
    [[nodiscard]] std::string finish();

  private:
    JsonWriter& open(char bracket);
    JsonWriter& close(char bracket);
    JsonWriter& scalar(std::string_view text);
    void before_value();
    void new_line();

    std::string text_;
    std::size_t depth_ = 0;
    bool first_ = true;  // nothing yet inside the innermost bracket
    bool after_key_ = false;
};

}  // namespace cep::tool
