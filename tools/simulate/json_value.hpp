// SPDX-License-Identifier: Apache-2.0
//
// Values of a JSON document that must have a certain type.
#pragma once

#include <simdjson.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/failure.hpp"

namespace cep::simulation {

template <typename Value>
constexpr const char* json_type_name() {
    if constexpr (std::is_same_v<Value, simdjson::dom::object>) return "an object";
    if constexpr (std::is_same_v<Value, simdjson::dom::array>) return "an array";
    if constexpr (std::is_same_v<Value, std::int64_t>) return "a whole number";
    if constexpr (std::is_same_v<Value, double>) return "a number";
    if constexpr (std::is_same_v<Value, bool>) return "true or false";
    if constexpr (std::is_same_v<Value, std::string_view>) return "a text";
}

/// The value, or a UsageError that begins with `where`.
template <typename Value>
[[nodiscard]] Value json_as(simdjson::dom::element element, const std::string& where) {
    Value value{};
    if (element.get(value) == simdjson::SUCCESS) return value;
    throw tool::UsageError(where + ": " + simdjson::minify(element) + " is not " + json_type_name<Value>());
}

template <typename Number>
[[nodiscard]] std::vector<Number> json_list(simdjson::dom::element element, const std::string& where) {
    std::vector<Number> numbers;
    for (const simdjson::dom::element item : json_as<simdjson::dom::array>(element, where))
        numbers.push_back(json_as<Number>(item, where));
    return numbers;
}

}  // namespace cep::simulation
