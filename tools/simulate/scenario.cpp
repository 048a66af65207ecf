// SPDX-License-Identifier: Apache-2.0

#include <optional>
#include <vector>

#include <fmt/core.h>

#include "simulate/settings.hpp"

namespace cep::simulation {
namespace {

using simdjson::dom::element;
using tool::UsageError;

[[noreturn]] void refuse_key(const std::string& where, std::string_view key, std::string_view keys) {
    throw UsageError(fmt::format("{}: no such key: '{}'; there are {}", where, key, keys));
}

void set_integer(std::optional<std::int64_t>& member, element value, const std::string& where) {
    member = json_as<std::int64_t>(value, where);
}

void set_count(auto& member, element value, const std::string& where) {
    const std::int64_t count = json_as<std::int64_t>(value, where);
    if (count < 1) throw UsageError(fmt::format("{}: {} is not at least 1", where, count));
    member = count;
}

void set_number(auto& member, double min, double max, element value, const std::string& where) {
    const double number = json_as<double>(value, where);
    check_range(number, min, max, where);
    member = number;
}

template <class Enum, class Names>
void set_enum(Enum& member, const Names& names, element value, const std::string& where) {
    member = static_cast<Enum>(index_of_name(names, json_as<std::string_view>(value, where), where));
}

constexpr double max_slowdown = 1000.0;
constexpr double max_excess_ms = 1e7;
constexpr std::string_view compute_phases = "compute";

/// One phase; or "compute", all that runs on the device.
PhaseSet phases_of(element value, const std::string& where) {
    PhaseSet phases{};
    const std::string_view name = json_as<std::string_view>(value, where);
    if (name == compute_phases) {
        for (const Phase phase : {Phase::forward, Phase::backward, Phase::optimizer})
            phases[static_cast<std::size_t>(phase)] = true;
        return phases;
    }
    phases[index_of_name(phase_names, name, where)] = true;
    return phases;
}

bool set_victims(Fault& fault, std::string_view key, element value, const std::string& where) {
    if (key == "rank" || key == "ranks") {
        fault.ranks = key == "rank" ? std::vector{json_as<std::int64_t>(value, where)} : json_ranks(value, where);
        if (fault.ranks.empty()) throw UsageError(where + ": no rank");
        return true;
    }
    if (key != "host" && key != "stage") return false;
    set_integer(key == "host" ? fault.host : fault.stage, value, where);
    return true;
}

/// Sets the phase of a fault or an event.
void set_phase(auto& object, element value, const std::string& where) {
    object.phase = json_as<std::string_view>(value, where);
    object.phases = phases_of(value, where);
}

void set_fault_key(Fault& fault, std::string_view key, element value, const std::string& where) {
    if (key == "phase") return set_phase(fault, value, where);
    if (key == "pattern") return set_enum(fault.pattern, pattern_names, value, where);
    if (key == "first_step") return set_integer(fault.first_step, value, where);
    if (key == "last_step") return set_integer(fault.last_step, value, where);
    if (key == "slowdown") return set_number(fault.slowdown, 1.0, max_slowdown, value, where);
    if (key == "excess_ms") return set_number(fault.excess_ms, 0.0, max_excess_ms, value, where);
    if (key == "fraction") return set_number(fault.fraction, 0.0, 1.0, value, where);
    if (key == "period_steps") return set_count(fault.period_steps, value, where);
    refuse_key(fault.where, key, fault_keys);
}

Fault fault_of(element value, const std::string& where) {
    Fault fault;
    fault.where = where;
    int victims = 0;
    for (const auto& [key, item] : json_as<simdjson::dom::object>(value, where)) {
        const std::string item_where = where + "." + std::string(key);
        if (set_victims(fault, key, item, item_where))
            ++victims;
        else
            set_fault_key(fault, key, item, item_where);
    }
    if (victims != 1) throw UsageError(where + ": needs one of rank, ranks, host and stage");
    if (fault.phase.empty()) throw UsageError(where + ".phase: missing");
    if (fault.slowdown == 1.0 && fault.excess_ms == 0.0) throw UsageError(where + ": neither slowdown nor excess_ms");
    if (fault.phase == compute_phases && fault.excess_ms > 0)
        throw UsageError(where + ".excess_ms: needs a single phase");
    return fault;
}

void set_event_key(Event& event, std::string_view key, element value, const std::string& where) {
    if (key == "type") return set_enum(event.type, event_names, value, where);
    if (key == "step") return set_integer(event.step, value, where);
    if (key == "every_steps") return set_count(event.every_steps, value, where);
    if (key == "last_step") return set_integer(event.last_step, value, where);
    if (key == "duration_ms") return set_number(event.duration_ms, 0.0, max_excess_ms, value, where);
    if (key == "slowdown") return set_number(event.slowdown, 0.01, max_slowdown, value, where);
    if (key == "phase") return set_phase(event, value, where);
    refuse_key(event.where, key, event_keys);
}

Event event_of(element value, const std::string& where) {
    Event event;
    event.where = where;
    bool has_type = false;
    for (const auto& [key, item] : json_as<simdjson::dom::object>(value, where)) {
        set_event_key(event, key, item, where + "." + std::string(key));
        has_type = has_type || key == "type";
    }
    const bool slows = event.type == EventType::slowdown_all;
    if (!has_type) throw UsageError(where + ".type: missing");
    if (slows && event.slowdown == 1.0) throw UsageError(where + ".slowdown: missing");
    if (!slows && (event.slowdown != 1.0 || !event.phase.empty()))
        throw UsageError(where + ": slowdown and phase are of slowdown_all only");
    if (slows && (event.duration_ms || event.every_steps))
        throw UsageError(where + ": duration_ms and every_steps are not of slowdown_all");
    if (slows && event.phase.empty()) event.phases.fill(true);
    return event;
}

element parsed(simdjson::dom::parser& parser, const simdjson::padded_string& text, const std::string& where) {
    element document;
    const simdjson::error_code error = parser.parse(text).get(document);
    if (error != simdjson::SUCCESS) throw UsageError(where + ": not valid JSON: " + simdjson::error_message(error));
    return document;
}

template <class Item>
void add_items(std::vector<Item>& items, Item (*parse)(element, const std::string&), element list,
               const std::string& where) {
    std::size_t index = 0;
    for (const element item : json_as<simdjson::dom::array>(list, where))
        items.push_back(parse(item, fmt::format("{}[{}]", where, index++)));
}

}  // namespace

void read_scenario(Job& job, const std::string& path) {
    simdjson::padded_string text;
    if (simdjson::padded_string::load(path).get(text) != simdjson::SUCCESS) throw UsageError(path + ": cannot be read");
    simdjson::dom::parser parser;
    for (const auto& [key, value] : json_as<simdjson::dom::object>(parsed(parser, text, path), path)) {
        const std::string where = path + ": " + std::string(key);
        const Setting* const setting = find_setting(key);
        if (setting != nullptr) {
            set_from_json(job, *setting, value, where);
            job.where = path + ": ";
        } else if (key == "faults") {
            add_items(job.faults, fault_of, value, where);
        } else if (key == "events") {
            add_items(job.events, event_of, value, where);
        } else {
            refuse_key(path, key, "faults, events, and the settings that 'cep help simulate' lists");
        }
    }
}

void add_fault(Job& job, const std::string& text) {
    simdjson::dom::parser parser;
    const simdjson::padded_string padded(text);
    job.faults.push_back(fault_of(parsed(parser, padded, "--fault"), "--fault"));
}

void add_event(Job& job, const std::string& text) {
    simdjson::dom::parser parser;
    const simdjson::padded_string padded(text);
    job.events.push_back(event_of(parsed(parser, padded, "--event"), "--event"));
}

}  // namespace cep::simulation
