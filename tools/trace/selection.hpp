// SPDX-License-Identifier: Apache-2.0
//
// Selection: the ranks and steps of a job that are worth a timeline.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/job.hpp"

namespace cep::tool {

/// What a trace shows of a job: the last steps that any rank recorded, and of the ranks that have some of them the
/// fastest, the median and the slowest, or all where there are at most three.
struct Selection {
    static constexpr std::size_t kept_steps = 50;

    std::vector<std::int64_t> ranks;
    std::vector<std::int64_t> steps;  // ascending
    std::size_t ranks_of_job = 0;
    std::int64_t first_step_of_job = 0;
};

/// Nothing where none of these ranks has a step.
[[nodiscard]] std::optional<Selection> select(const Job& job, const Filter& ranks);

}  // namespace cep::tool
