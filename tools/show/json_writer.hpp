// SPDX-License-Identifier: Apache-2.0
//
// JSON writer: indented JSON text, one value at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cep::tool {

/// A text as a JSON value: null for an empty one.
[[nodiscard]] inline std::optional<std::string_view> text_or_null(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

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
    /// The shortest text that reads back as the same number; null for infinities and NaN.
    JsonWriter& number(double value);
    JsonWriter& null();
    /// On one line.
    JsonWriter& integers(const std::vector<std::int64_t>& values);

    /// A value of any of these types, a whole number or a bool; null for an optional without a value.
    template <typename Value>
    JsonWriter& value(const Value& value) {
        if constexpr (requires { *value, value.has_value(); }) {
            return value ? this->value(*value) : null();
        } else if constexpr (std::is_same_v<Value, bool>) {
            return scalar(value ? "true" : "false");
        } else if constexpr (std::is_floating_point_v<Value>) {
            return number(value);
        } else if constexpr (std::is_integral_v<Value>) {
            return scalar(std::to_string(value));
        } else if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) {
            return integers(value);
        } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
            begin_array();
            for (const std::string& text : value) string(text);
            return end_array();
        } else {
            return string(value);
        }
    }
    /// Members of the open object: name, value, name, value, …
    template <typename Value, typename... Others>
    JsonWriter& members(std::string_view name, const Value& value, const Others&... others) {
        key(name).value(value);
        if constexpr (sizeof...(others) > 0) members(others...);
        return *this;
    }
    /// A member that is an object; `write` writes its members.
    template <typename Write>
    JsonWriter& object(std::string_view name, const Write& write) {
        key(name).begin_object();
        write();
        return end_object();
    }
    /// The same of what an optional or a pointer has; null where it has nothing.
    template <typename Found, typename Write>
    JsonWriter& object_or_null(std::string_view name, const Found& found, const Write& write) {
        return found ? object(name, [&] { write(*found); }) : key(name).null();
    }
    /// A list of objects; `write` writes the members of each.
    template <typename List, typename Write>
    JsonWriter& objects(const List& list, const Write& write) {
        begin_array();
        for (const auto& item : list) {
            begin_object();
            write(item);
            end_object();
        }
        return end_array();
    }
    /// A member with such a list.
    template <typename List, typename Write>
    JsonWriter& objects(std::string_view name, const List& list, const Write& write) {
        return key(name).objects(list, write);
    }

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
