// SPDX-License-Identifier: Apache-2.0
#include "json_writer.hpp"

#include <cmath>

#include <fmt/format.h>

namespace cep::analysis {
namespace {

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            result += c;
        }
    }
    return result + "\"";
}

}  // namespace

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
    text_ += quoted(name) + ": ";
    after_key_ = true;
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view value) { return scalar(quoted(value)); }
JsonWriter& JsonWriter::integer(std::int64_t value) { return scalar(fmt::format("{}", value)); }
JsonWriter& JsonWriter::count(std::uint64_t value) { return scalar(fmt::format("{}", value)); }
JsonWriter& JsonWriter::number(double value) {
    return std::isfinite(value) ? scalar(fmt::format("{}", value)) : null();
}
JsonWriter& JsonWriter::boolean(bool value) { return scalar(value ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return scalar("null"); }

JsonWriter& JsonWriter::integers(const std::vector<std::int64_t>& values) {
    std::string text = "[";
    for (const std::int64_t value : values) text += (text.size() > 1 ? ", " : "") + fmt::format("{}", value);
    return scalar(text + "]");
}

std::string JsonWriter::finish() { return text_ + "\n"; }

}  // namespace cep::analysis
