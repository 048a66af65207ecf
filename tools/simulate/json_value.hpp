// SPDX-License-Identifier: Apache-2.0
//
// Values of a JSON document that must be of a certain type. `where` begins the message of the UsageError otherwise.
#pragma once

#include <simdjson.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cep::simulation {

[[nodiscard]] simdjson::dom::object json_object(simdjson::dom::element value, const std::string& where);
[[nodiscard]] simdjson::dom::array json_array(simdjson::dom::element value, const std::string& where);
[[nodiscard]] std::int64_t json_integer(simdjson::dom::element value, const std::string& where);
[[nodiscard]] double json_number(simdjson::dom::element value, const std::string& where);
[[nodiscard]] bool json_flag(simdjson::dom::element value, const std::string& where);
[[nodiscard]] std::string_view json_text(simdjson::dom::element value, const std::string& where);
[[nodiscard]] std::vector<double> json_numbers(simdjson::dom::element value, const std::string& where);
/// An array of numbers, or a text such as "0,3-7".
[[nodiscard]] std::vector<std::int64_t> json_ranks(simdjson::dom::element value, const std::string& where);

}  // namespace cep::simulation
