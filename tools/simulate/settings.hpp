// SPDX-License-Identifier: Apache-2.0
//
// Settings: the table of a job's settings. The command's options, the keys of a scenario, and the options in truth.json
// come from it. A scenario is a job as a JSON object, whose keys are those of all settings, `faults` and `events`.
#pragma once

#include <simdjson.h>

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/failure.hpp"
#include "show/json_writer.hpp"
#include "simulate/job.hpp"

namespace cep::simulation {

using IntegerMember = std::int64_t Job::*;
using NumberMember = double Job::*;
using FlagMember = bool Job::*;
using PhasesMember = PhaseShares Job::*;
using NumbersMember = std::vector<double> Job::*;
using RanksMember = std::vector<std::int64_t> Job::*;

struct Setting {
    std::string_view key;  // of a scenario; as an option, with "-" for "_"
    std::variant<IntegerMember, NumberMember, FlagMember, PhasesMember, NumbersMember, RanksMember> member;
    double min;  // of each number
    double max;
    std::string_view value_name{};  // of an option
    std::string_view help{};        // "": scenarios only

    [[nodiscard]] bool is_option() const { return !help.empty(); }
};

[[nodiscard]] std::span<const Setting> all_settings();
/// nullptr for an unknown key.
[[nodiscard]] const Setting* find_setting(std::string_view key);
[[nodiscard]] std::string option_name(const Setting& setting);
/// What it means, and its default.
[[nodiscard]] std::string option_help(const Setting& setting);

/// `where` begins the message of the UsageError that these throw. The first is of the settings that are options.
void set_from_text(Job& job, const Setting& setting, std::string_view text, const std::string& where);
void set_from_json(Job& job, const Setting& setting, simdjson::dom::element value, const std::string& where);
/// Writes all settings into the open JSON object.
void write_settings(tool::JsonWriter& json, const Job& job);

/// The index of a name in a list. Throws UsageError where it is not there.
[[nodiscard]] std::size_t index_of_name(std::span<const std::string_view> names, std::string_view name,
                                        const std::string& where);
/// Throws UsageError where the value is beyond the limits.
void check_range(double value, double min, double max, const std::string& where);
/// Ranks from a JSON array of numbers, or a text such as "0,3-7". Throws UsageError.
[[nodiscard]] std::vector<std::int64_t> json_ranks(simdjson::dom::element value, const std::string& where);

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

/// For people: what a fault and an event may have.
inline constexpr std::string_view fault_keys =
    "rank, ranks, host or stage; phase; slowdown or excess_ms; pattern, fraction, period_steps, first_step, last_step";
inline constexpr std::string_view event_keys =
    "type; step, every_steps, last_step; duration_ms; slowdown and phase of slowdown_all";

/// Throws UsageError, which names the file, the key and the value.
void read_scenario(Job& job, const std::string& path);
/// Adds one fault, or one event, from the text of a JSON object.
void add_fault(Job& job, const std::string& text);
void add_event(Job& job, const std::string& text);

}  // namespace cep::simulation
