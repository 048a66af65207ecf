// SPDX-License-Identifier: Apache-2.0
//
// Job spans: the steps of a job that analyses go through, and the spans of its ranks in them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/job.hpp"
#include "model/rank_spans.hpp"

namespace cep::tool {

/// The job must outlive it.
struct JobSpans {
    JobSpans() = default;
    explicit JobSpans(const Job& job);

    std::vector<std::int64_t> steps;    // see kept_steps()
    std::vector<std::uint32_t> common;  // indices of steps, without partial ones, see find_partial_steps()
    StepPhase step_phase;
    std::vector<RankSpans> of_rank;  // in the order of the job's ranks; of the last attempt at each step
};

}  // namespace cep::tool
