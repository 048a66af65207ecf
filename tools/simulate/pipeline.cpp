// SPDX-License-Identifier: Apache-2.0
#include "simulate/pipeline.hpp"

#include <algorithm>

namespace cep::simulation {

std::vector<PipelineTask> stage_tasks(std::size_t stage, std::size_t stages, std::size_t micro_batches) {
    const std::size_t warmup = std::min(stages - 1 - stage, micro_batches);
    std::vector<PipelineTask> tasks;
    for (std::size_t i = 0; i < warmup; ++i) tasks.push_back({stage, i, false});
    for (std::size_t i = warmup; i < micro_batches; ++i) {
        tasks.push_back({stage, i, false});
        tasks.push_back({stage, i - warmup, true});
    }
    for (std::size_t i = micro_batches - warmup; i < micro_batches; ++i) tasks.push_back({stage, i, true});
    return tasks;
}

std::vector<PipelineTask> pipeline_tasks(std::size_t stages, std::size_t micro_batches) {
    std::vector<std::vector<PipelineTask>> of_stages;
    for (std::size_t stage = 0; stage < stages; ++stage) of_stages.push_back(stage_tasks(stage, stages, micro_batches));
    std::vector<std::size_t> next(stages);
    std::vector<std::size_t> forwards(stages);  // done
    std::vector<std::size_t> backwards(stages);
    const auto is_ready = [&](const PipelineTask& task) {
        if (task.backward) return task.stage + 1 == stages || backwards[task.stage + 1] > task.micro_batch;
        return task.stage == 0 || forwards[task.stage - 1] > task.micro_batch;
    };
    std::vector<PipelineTask> tasks;
    while (tasks.size() < 2 * stages * micro_batches)
        for (std::size_t stage = 0; stage < stages; ++stage)
            while (next[stage] < of_stages[stage].size() && is_ready(of_stages[stage][next[stage]])) {
                tasks.push_back(of_stages[stage][next[stage]++]);
                ++(tasks.back().backward ? backwards : forwards)[stage];
            }
    return tasks;
}

}  // namespace cep::simulation
