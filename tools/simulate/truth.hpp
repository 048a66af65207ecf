// SPDX-License-Identifier: Apache-2.0
//
// Truth: what an analysis of the files should find, as JSON (schema cep.simulation/1).
#pragma once

#include <string>

#include "simulate/job.hpp"
#include "simulate/simulator.hpp"

namespace cep::simulation {

[[nodiscard]] std::string truth_json(const Job& job, const Outcome& outcome);

}  // namespace cep::simulation
