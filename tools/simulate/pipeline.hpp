// SPDX-License-Identifier: Apache-2.0
//
// Pipeline: the order of the forwards and backwards of a step by the 1F1B schedule (Narayanan et al. 2021): each stage
// begins with as many forwards as there are stages after it, alternates forwards and backwards, and ends with the
// remaining backwards.
#pragma once

#include <cstddef>
#include <vector>

namespace cep::simulation {

struct PipelineTask {
    std::size_t stage;
    std::size_t micro_batch;
    bool backward;
};

/// The tasks of one stage in their order.
[[nodiscard]] std::vector<PipelineTask> stage_tasks(std::size_t stage, std::size_t stages, std::size_t micro_batches);
/// The tasks of all stages, each after those it waits for.
[[nodiscard]] std::vector<PipelineTask> pipeline_tasks(std::size_t stages, std::size_t micro_batches);

}  // namespace cep::simulation
