// SPDX-License-Identifier: Apache-2.0
#include "faults.hpp"

#include <charconv>

namespace fake_cuda {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

/// Cuts the text at the first separator and returns the rest; none if there is no separator.
std::optional<std::string_view> cut(std::string_view& text, std::string_view separator) {
    const std::size_t at = text.find(separator);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(at + separator.size());
    text = text.substr(0, at);
    return rest;
}

/// WHEN: N, N..M or N.. .
bool parse_when(std::string_view when, Rule& rule) {
    const std::optional<std::string_view> last = cut(when, "..");
    if (!parse_number(when, rule.first) || rule.first == 0) return false;
    if (!last) rule.last = rule.first;
    if (last && !last->empty() && !parse_number(*last, rule.last)) return false;
    return rule.first <= rule.last;
}

/// The number of one call.
bool parse_ordinal(std::optional<std::string_view> when, Rule& rule) {
    return !when || (parse_number(*when, rule.first) && rule.first != 0);
}

bool parse_fault(std::string_view text, Rule& rule) {
    const std::optional<std::string_view> when = cut(text, "@");
    const std::optional<std::string_view> value = cut(text, "=");
    if (text == "fail" || text == "sticky") {
        rule.fault = text == "fail" ? Fault::fail : Fault::sticky;
        if (!value || !parse_number(*value, rule.code) || rule.code <= 0) return false;
        if (rule.fault == Fault::sticky) return parse_ordinal(when, rule);
        return rule.function && (!when || parse_when(*when, rule));
    }
    rule.fault = Fault::block;
    return text == "block" && rule.function && !value && (!when || parse_when(*when, rule));
}

bool parse_rule(std::string_view text, Rule& rule) {
    const std::optional<std::string_view> fault = cut(text, ":");
    if (!fault) return parse_fault(text, rule);
    const std::size_t index = find_function(text);
    if (index == function_count) return false;
    rule.function = static_cast<Function>(index);
    return parse_fault(*fault, rule);
}

}  // namespace

std::optional<std::vector<Rule>> parse_rules(std::string_view text) {
    std::vector<Rule> rules;
    for (std::optional<std::string_view> rest = text; rest;) {
        std::string_view one = *rest;
        rest = cut(one, ";");
        if (!parse_rule(one, rules.emplace_back())) return std::nullopt;
    }
    return rules;
}

}  // namespace fake_cuda
