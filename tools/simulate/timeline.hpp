// SPDX-License-Identifier: Apache-2.0
//
// Timeline: runs the job step by step. Ranks wait for each other in collectives: all ranks of a group leave a
// collective when the last has entered and the transfer is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/item.hpp"
#include "simulate/job.hpp"
#include "simulate/layout.hpp"
#include "simulate/links.hpp"
#include "simulate/work.hpp"

namespace cep::simulation {

/// A forward or a backward of a step. Their order is that of the 1F1B schedule (Narayanan et al. 2021): each stage
/// begins with as many forwards as there are stages after it, alternates forwards and backwards, and ends with the
/// remaining backwards.
struct PipelineTask {
    std::size_t stage;
    std::size_t micro_batch;
    bool backward;
};

/// The tasks of one stage in their order.
[[nodiscard]] std::vector<PipelineTask> stage_tasks(std::size_t stage, std::size_t stages, std::size_t micro_batches);
/// The tasks of all stages, each after those it waits for.
[[nodiscard]] std::vector<PipelineTask> pipeline_tasks(std::size_t stages, std::size_t micro_batches);

class Timeline {
  public:
    Timeline(const Job& job, const Layout& layout, std::vector<bool> active_faults);

    /// Steps come in order. `items`: where the rows of the step go; nullptr for a step that is not recorded.
    void advance(std::int64_t step, Items* items);
    /// The time at which the last rank ended the last step.
    [[nodiscard]] std::int64_t now_ns() const;
    [[nodiscard]] const Work& work() const { return work_; }

  private:
    struct RankState {
        std::int64_t now_ns = 0;
        std::int64_t host_ns = 0;  // how far the host has launched
        std::int64_t step_begin_ns = 0;
        std::int64_t backward_begin_ns = 0;  // the last of the step
        std::int64_t backward_end_ns = 0;
        std::size_t backward_item = 0;
        std::array<std::int64_t, 2> send_end_ns{};  // forth and back
        std::array<std::uint32_t, name_count> seq{};
    };
    /// A span on the device that has begun and not ended.
    struct Opened {
        std::int64_t begin_ns;
        std::int64_t host_begin_ns;
    };
    struct Collective {
        std::size_t group;
        std::int64_t coll;
        std::int64_t bytes;
    };

    void begin_step(std::size_t rank);
    [[nodiscard]] Opened open(std::size_t rank);
    void close(std::size_t rank, const Opened& opened, Name name);
    void run_phase(std::size_t rank, Phase phase);
    void run_task(const PipelineTask& task, std::size_t dp);
    void run_pieces(const PipelineTask& task, std::size_t dp);
    void reduce_tensors(const PipelineTask& task, std::size_t dp, std::int64_t piece);
    [[nodiscard]] bool receives(const PipelineTask& task) const;
    [[nodiscard]] bool sends(const PipelineTask& task) const;
    void receive(const PipelineTask& task, std::size_t rank);
    void reduce_gradients(std::size_t tp, std::size_t pp);
    void reduce_bucket(Coordinates at, std::size_t bucket, std::int64_t bucket_free_ns);
    [[nodiscard]] std::int64_t bucket_ready_ns(const RankState& state, std::size_t bucket) const;
    void extend_backward(std::size_t rank);
    void end_step(std::size_t rank);
    void run_event(std::size_t rank, const Event& event);
    void count_memory(std::size_t rank);
    [[nodiscard]] std::int64_t& send_ready_ns(const PipelineTask& task, std::size_t tp);

    void add_comm(std::size_t rank, Name name, std::int64_t start_ns, std::int64_t end_ns, const Collective& collective,
                  std::uint8_t depth, std::uint8_t stream);
    Item* add(std::size_t rank, Name name, std::int64_t start_ns, std::int64_t duration_ns);

    const Job& job_;
    const Layout layout_;
    const Links links_;
    const Random random_;
    Work work_;
    const std::vector<PipelineTask> tasks_;
    const std::int64_t launch_ns_;
    const std::int64_t activation_bytes_;
    std::vector<std::int64_t> bucket_bytes_;
    std::vector<RankState> states_;
    std::vector<std::int64_t> send_ready_ns_;  // of one pipeline, by stage, direction, micro-batch and tp
    std::vector<std::int64_t> arrivals_ns_;
    std::int64_t step_ = 0;
    std::int64_t step_index_ = 0;
    Items* items_ = nullptr;
};

/// The sizes of the all-reduces of a step's gradients. The n-th is n times as large as the first.
[[nodiscard]] std::vector<std::int64_t> bucket_sizes_bytes(const Job& job);
[[nodiscard]] std::int64_t bytes_of_mb(double size_mb);
[[nodiscard]] bool happens(const Event& event, std::int64_t step, std::int64_t start_step);

}  // namespace cep::simulation
