// SPDX-License-Identifier: Apache-2.0
//
// Members of JSON objects inside a trace, as they are written. What is not looked at is not validated: a profiler that
// writes NaN inside an event does not make the event worthless.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "kernels/trace_text.hpp"

namespace cep::kernels {

namespace ondemand = simdjson::ondemand;

static_assert(text_padding_bytes >= simdjson::SIMDJSON_PADDING);

inline simdjson::padded_string_view with_padding(std::string_view text) {
    return simdjson::padded_string_view(text.data(), text.size(), text.size() + text_padding_bytes);
}

/// A string with its quotes, a number, or the first byte of an object or array.
inline std::string_view token_of(ondemand::value& value) {
    const std::string_view token = value.raw_json_token();
    return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

/// Calls `take(key, value)` for each member until it returns false. Returns false where the object is not JSON.
template <typename Take>
bool read_members(ondemand::object object, Take take) {
    for (auto item : object) {
        ondemand::field field;
        if (std::move(item).get(field) != simdjson::SUCCESS) return false;
        if (!take(field.key(), field.value())) return true;
    }
    return true;
}

/// The same for the text of an object.
template <typename Take>
bool read_members(ondemand::parser& parser, std::string_view text, Take take) {
    ondemand::document document;
    ondemand::object object;
    return parser.iterate(with_padding(text)).get(document) == simdjson::SUCCESS &&
           document.get_object().get(object) == simdjson::SUCCESS && read_members(object, take);
}

}  // namespace cep::kernels
