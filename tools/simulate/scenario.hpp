// SPDX-License-Identifier: Apache-2.0
//
// Scenario: a job as a JSON object, whose keys are those of the settings, `faults` and `events`.
#pragma once

#include <string>

#include "simulate/job.hpp"

namespace cep::simulation {

/// Throws UsageError, which names the file, the key and the value.
void read_scenario(Job& job, const std::string& path);
/// Adds one fault, or one event, from the text of a JSON object.
void add_fault(Job& job, const std::string& text);
void add_event(Job& job, const std::string& text);

}  // namespace cep::simulation
