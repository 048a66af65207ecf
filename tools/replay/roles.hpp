// SPDX-License-Identifier: Apache-2.0
//
// Roles: ranks that do the same in a step, such as those of one pipeline stage.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/comm_rows.hpp"

namespace cep::tool {

struct Roles {
    std::vector<std::uint32_t> of_rank;
    std::vector<std::vector<std::uint32_t>> members;  // by role: its ranks, ascending
    std::vector<std::int64_t> stages;                 // by role: the pipeline stage, or the role's number
    bool are_inferred = false;
    std::size_t pipeline_length = 1;  // stages; 1: roles are ranks that do other work than others

    [[nodiscard]] std::size_t count() const { return stages.size(); }
    [[nodiscard]] bool are_stages() const { return pipeline_length > 1; }
};

/// The pipeline stages, where run rows give them. Else stages follow from who waits for whom first in a step.
[[nodiscard]] Roles find_roles(std::span<const StepRows> steps, const JobRows& job, double tolerance_ms);

}  // namespace cep::tool
