// SPDX-License-Identifier: Apache-2.0
#include "commands/arguments.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "commands/help.hpp"

namespace cep::cli {
namespace {

// Some versions of CLI11 take "" for 0, and what is too large for the largest number.
const Check not_negative{[](const std::string& text) {
    if (text.starts_with('-')) return text + " is negative";
    return tool::parse_number<std::uint64_t>(text) ? "" : "'" + text + "' is not a whole number";
}};

// As of a variable that is not set.
const Check not_empty{[](const std::string& text) { return text.empty() ? "its value is empty" : ""; }};

CLI::Validator validator_of(const Check& check) {
    const std::string words = check.words.empty() ? "" : fmt::format("{{{}}}", tool::join(check.words, ","));
    return CLI::Validator([check](std::string& text) { return check.why_not(text); }, words);
}

}  // namespace

const Check positive_number{[](const std::string& text) {
    const auto number = tool::parse_number<double>(text);
    const bool is_positive = number && *number > 0 && std::isfinite(*number);
    return is_positive ? std::string() : "'" + text + "' is no number above 0";
}};

Check whole_number_from(std::uint64_t least, std::uint64_t most) {
    return {[least, most](const std::string& text) {
        const auto number = tool::parse_number<std::uint64_t>(text);
        return number && *number >= least && *number <= most
                   ? std::string()
                   : fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
    }};
}

Check one_of(const std::vector<std::string>& words) {
    return {[words](const std::string& text) {
                const bool is_known = std::find(words.begin(), words.end(), text) != words.end();
                return is_known ? std::string() : fmt::format("'{}' is not one of {}", text, tool::join(words, ", "));
            },
            words};
}

void Arguments::add(const Target& target, const Option& option) {
    CLI::Option* const added = std::visit(
        [&]<typename To>(const To& to) {
            if constexpr (std::is_same_v<To, bool*>)
                return app_.add_flag(option.names, *to, option.help);
            else if constexpr (std::is_pointer_v<To>)
                return app_.add_option(option.names, *to, option.help);
            else if constexpr (std::is_invocable_v<To>)
                return app_.add_flag_callback(option.names, to, option.help);
            else
                return app_.add_option_function<std::string>(option.names, to, option.help);
        },
        target);
    if (option.check.why_not) added->check(validator_of(option.check));
    const std::string type = added->get_type_name();
    if (type.starts_with("UINT")) added->check(validator_of(not_negative));
    if (type.starts_with("TEXT") && option.names.starts_with('-')) added->check(validator_of(not_empty));
    if (!option.value.empty()) added->option_text(option.value);
    if (option.delimiter != '\0') added->delimiter(option.delimiter);
    if (option.is_repeated) added->allow_extra_args(false);
    if (option.is_required) added->required();
    if (option.is_hidden) added->group(hidden_group);
}

void Arguments::remove(const std::string& name) {
    app_.remove_option(app_.get_option(name));
}

void Arguments::set_help(const std::string& name, const std::string& help) {
    app_.get_option(name)->description(help);
}

void Arguments::exclude(const std::string& name, const std::string& other) {
    app_.get_option(name)->excludes(app_.get_option(other));
}

bool Arguments::is_given(const std::string& name) const {
    return app_.count(name) > 0;
}

void Arguments::set_examples(const std::string& examples) {
    app_.footer("Examples:\n" + examples);
}

}  // namespace cep::cli
