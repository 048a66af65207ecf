// SPDX-License-Identifier: Apache-2.0
#include "metrics/exposition.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace cep::tool {
namespace {

constexpr std::array<std::string_view, 3> type_names = {"gauge", "counter", "summary"};

void append_label_value(std::string& out, std::string_view value) {
    for (const char c : value) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
}

std::string number_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
}

}  // namespace

void Exposition::begin(std::string_view name, MetricType type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {1}.\n# TYPE {0} {2}\n", name, help, type_names[static_cast<std::size_t>(type)]);
}

void Exposition::sample(Labels labels, double value, std::string_view ending) {
    text_ += name_;
    text_ += ending;
    char separator = '{';
    for (const Label& label : labels) {
        text_ += separator;
        text_ += label.name;
        text_ += "=\"";
        append_label_value(text_, label.value);
        text_ += '"';
        separator = ',';
    }
    if (labels.size() > 0) text_ += '}';
    text_ += ' ' + number_text(value) + '\n';
}

void Exposition::single(std::string_view name, MetricType type, std::string_view help,
                        const std::optional<double>& value) {
    if (!value) return;
    begin(name, type, help);
    sample({}, *value);
}

void Exposition::gauge(std::string_view name, std::string_view help, const std::optional<double>& value) {
    single(name, MetricType::gauge, help, value);
}

void Exposition::counter(std::string_view name, std::string_view help, const std::optional<double>& value) {
    single(name, MetricType::counter, help, value);
}

}  // namespace cep::tool
