// SPDX-License-Identifier: Apache-2.0
#include "commands/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/help.hpp"

namespace cep::cli {

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
                return is_known ? std::string() : fmt::format("'{}' is not one of {}", text, fmt::join(words, ", "));
            },
            words};
}

Option& Option::value(const std::string& name) {
    option_->option_text(name);
    return *this;
}

Option& Option::check(const Check& check) {
    const std::string words = check.words.empty() ? "" : fmt::format("{{{}}}", fmt::join(check.words, ","));
    option_->check(CLI::Validator([check](std::string& text) { return check.why_not(text); }, words));
    return *this;
}

Option& Option::description(const std::string& text) {
    option_->description(text);
    return *this;
}

Option& Option::required() {
    option_->required();
    return *this;
}

Option& Option::repeated() {
    option_->allow_extra_args(false);
    return *this;
}

Option& Option::separated_by(char delimiter) {
    option_->delimiter(delimiter);
    return *this;
}

Option& Option::excludes(const Option& other) {
    option_->excludes(other.option_);
    return *this;
}

Option& Option::hidden() {
    option_->group(hidden_group);
    return *this;
}

bool Option::is_given() const {
    return option_->count() > 0;
}

std::string Option::name() const {
    return option_->get_name();
}

template <typename Value>
Option Arguments::add_option(const std::string& names, Value& value, const std::string& help) {
    return Option(app_.add_option(names, value, help));
}

template Option Arguments::add_option(const std::string&, std::string&, const std::string&);
template Option Arguments::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Arguments::add_option(const std::string&, std::vector<std::uint64_t>&, const std::string&);
template Option Arguments::add_option(const std::string&, int&, const std::string&);
template Option Arguments::add_option(const std::string&, unsigned&, const std::string&);
template Option Arguments::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Arguments::add_option(const std::string&, double&, const std::string&);
template Option Arguments::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option Arguments::add_option(const std::string&, std::optional<std::uint64_t>&, const std::string&);

Option Arguments::add_option_function(const std::string& names, const std::function<void(const std::string&)>& take,
                                      const std::string& help) {
    return Option(app_.add_option_function<std::string>(names, take, help));
}

Option Arguments::add_flag(const std::string& names, bool& flag, const std::string& help) {
    return Option(app_.add_flag(names, flag, help));
}

Option Arguments::add_flag_callback(const std::string& names, const std::function<void()>& take,
                                    const std::string& help) {
    return Option(app_.add_flag_callback(names, take, help));
}

Option Arguments::get_option(const std::string& name) {
    return Option(app_.get_option(name));
}

void Arguments::remove_option(const std::string& name) {
    app_.remove_option(app_.get_option(name));
}

void Arguments::set_examples(const std::string& examples) {
    app_.footer("Examples:\n" + examples);
}

void refuse_odd_values(CLI::App& command) {
    // Some versions of CLI11 take "" for 0, and what is too large for the largest number.
    const CLI::Validator not_negative(
        [](std::string& text) {
            if (text.starts_with('-')) return text + " is negative";
            return tool::parse_number<std::uint64_t>(text) ? "" : "'" + text + "' is not a whole number";
        },
        "");
    const CLI::Validator not_empty([](std::string& text) { return text.empty() ? "its value is empty" : ""; }, "");
    for (CLI::Option* option : command.get_options()) {
        if (option->get_type_name().starts_with("UINT")) option->check(not_negative);
        if (option->get_type_name().starts_with("TEXT") && !option->get_lnames().empty()) option->check(not_empty);
    }
}

void add_command(CLI::App& app, const std::string& name, const std::string& description,
                 const std::function<void(Arguments&)>& add_options, const std::function<void()>& chosen) {
    CLI::App* const command = app.add_subcommand(name, description);
    Arguments arguments(*command);
    add_options(arguments);
    command->callback(chosen);
}

}  // namespace cep::cli
