// SPDX-License-Identifier: Apache-2.0
//
// Job replay: the graphs of a job's steps, ready to be replayed with other durations.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "replay/replay.hpp"
#include "replay/replayed_steps.hpp"

namespace cep::tool {

/// The job must outlive it.
class JobReplay {
  public:
    /// `left_out`: steps, ascending, that count for nothing in means. `findings`: nor do steps in which one of their slow
    /// ranks has no rows, if enough others are left.
    JobReplay(const Job& job, std::size_t threads, std::span<const std::int64_t> left_out = {},
              std::span<const Finding> findings = {});
    JobReplay(const JobReplay&) = delete;
    JobReplay& operator=(const JobReplay&) = delete;

    /// How well it gives what was observed. The rest is there where it `is_possible`.
    [[nodiscard]] const Replay& facts() const { return facts_; }
    [[nodiscard]] const JobRows& rows() const { return rows_; }
    [[nodiscard]] std::span<const StepGraph> graphs() const { return graphs_; }
    [[nodiscard]] const JobModel& model() const { return *model_; }
    [[nodiscard]] const Replayer& replayer() const { return *replayer_; }
    [[nodiscard]] ReplayedSteps steps() const { return {graphs_, *model_, *typical_, *replayer_}; }

  private:
    JobRows rows_;
    Replay facts_;
    std::optional<JobModel> model_;
    std::vector<StepGraph> graphs_;
    std::optional<TypicalWork> typical_;
    std::optional<Replayer> replayer_;
};

}  // namespace cep::tool
