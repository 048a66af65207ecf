// SPDX-License-Identifier: Apache-2.0
//
// Simulator: runs a job and writes its files. It also runs the job with fewer faults and the same random numbers, to
// know what each fault costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simulate/job.hpp"
#include "simulate/rank_files.hpp"
#include "simulate/work.hpp"

namespace cep::simulation {

struct Outcome {
    /// When the last rank ended each step, from the job's start: of the job, without its faults, and without each.
    std::vector<std::int64_t> ends_ns;
    std::vector<std::int64_t> ends_without_faults_ns;
    std::vector<std::vector<std::int64_t>> ends_without_fault_ns;
    std::vector<FaultEffect> effects;
    std::vector<HostClock> clocks;
    RowCounts rows;
    std::uint64_t files = 0;
    std::int64_t recorded_steps = 0;
};

/// The job must be complete. Throws WriteError.
[[nodiscard]] Outcome simulate(const Job& job, const std::string& directory, std::size_t threads);

/// Truth: what an analysis of the files should find, as JSON (schema cep.simulation/2).
[[nodiscard]] std::string truth_json(const Job& job, const Outcome& outcome);

}  // namespace cep::simulation
