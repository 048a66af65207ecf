// SPDX-License-Identifier: Apache-2.0
//
// Scenario: a job as a JSON object, whose keys are those of the settings, `faults` and `events`.
#pragma once

#include <string>
#include <string_view>

#include "simulate/job.hpp"

namespace cep::simulation {

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
