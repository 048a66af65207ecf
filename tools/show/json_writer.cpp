// SPDX-License-Identifier: Apache-2.0
#include "show/json_writer.hpp"

#include <cmath>

#include <fmt/core.h>

#include "base/text.hpp"

namespace cep::tool {
// Names in rows are UTF-8; names of files may be anything.
void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const std::string_view character = take_character(text);
        const char c = character.front();
        if (c == '"' || c == '\\') out += '\\';
        if (utf8_size(character) == 0) {
            out += "\xef\xbf\xbd";
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += character;
        }
    }
    out += '"';
}

void JsonWriter::new_line() {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
}

void JsonWriter::before_value() {
    if (after_key_) {
        after_key_ = false;
        return;
    }
    if (!first_) text_ += ',';
    if (depth_ > 0) new_line();
    first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
    before_value();
    text_ += bracket;
    ++depth_;
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
    --depth_;
    if (!first_) new_line();
    text_ += bracket;
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::scalar(std::string_view text) {
    before_value();
    text_ += text;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    before_value();
    append_json_string(text_, name);
    text_ += ": ";
    after_key_ = true;
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view value) {
    before_value();
    append_json_string(text_, value);
    return *this;
}
JsonWriter& JsonWriter::number(double value) {
    return std::isfinite(value) ? scalar(fmt::format("{}", value)) : null();
}
JsonWriter& JsonWriter::null() {
    return scalar("null");
}

JsonWriter& JsonWriter::integers(const std::vector<std::int64_t>& values) {
    std::string text = "[";
    for (const std::int64_t value : values) text += (text.size() > 1 ? ", " : "") + fmt::format("{}", value);
    return scalar(text + "]");
}

std::string JsonWriter::finish() {
    text_ += '\n';
    return std::move(text_);
}

}  // namespace cep::tool
