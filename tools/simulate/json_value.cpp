// SPDX-License-Identifier: Apache-2.0
#include "simulate/json_value.hpp"

#include "base/failure.hpp"
#include "simulate/settings.hpp"

namespace cep::simulation {
namespace {

template <class Value>
Value json_value(simdjson::dom::element element, const std::string& where, const char* type) {
    Value value{};
    if (element.get(value) == simdjson::SUCCESS) return value;
    throw tool::UsageError(where + ": " + simdjson::minify(element) + " is not " + type);
}

}  // namespace

simdjson::dom::object json_object(simdjson::dom::element value, const std::string& where) {
    return json_value<simdjson::dom::object>(value, where, "an object");
}
simdjson::dom::array json_array(simdjson::dom::element value, const std::string& where) {
    return json_value<simdjson::dom::array>(value, where, "an array");
}
std::int64_t json_integer(simdjson::dom::element value, const std::string& where) {
    return json_value<std::int64_t>(value, where, "a whole number");
}
double json_number(simdjson::dom::element value, const std::string& where) {
    return json_value<double>(value, where, "a number");
}
bool json_flag(simdjson::dom::element value, const std::string& where) {
    return json_value<bool>(value, where, "true or false");
}
std::string_view json_text(simdjson::dom::element value, const std::string& where) {
    return json_value<std::string_view>(value, where, "a text");
}

std::vector<double> json_numbers(simdjson::dom::element value, const std::string& where) {
    std::vector<double> numbers;
    for (const simdjson::dom::element item : json_array(value, where)) numbers.push_back(json_number(item, where));
    return numbers;
}

std::vector<std::int64_t> json_ranks(simdjson::dom::element value, const std::string& where) {
    if (value.is_string()) return parse_ranks(json_text(value, where), where);
    std::vector<std::int64_t> ranks;
    for (const simdjson::dom::element item : json_array(value, where)) ranks.push_back(json_integer(item, where));
    return ranks;
}

}  // namespace cep::simulation
