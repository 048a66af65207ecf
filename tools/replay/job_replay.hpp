// SPDX-License-Identifier: Apache-2.0
//
// Job replay: the graphs of a job's steps, ready to be replayed with other durations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "replay/replay.hpp"
#include "replay/replayer.hpp"
#include "replay/typical_work.hpp"
#include "stats/robust.hpp"

namespace cep::tool {

/// Milliseconds by phase, an index into JobRows::names().
using PhaseSums = std::vector<double>;

/// The job must outlive it.
class JobReplay {
  public:
    /// `left_out`: steps, ascending, that count for nothing in means. `findings`: nor do steps in which one of their
    /// slow ranks has no rows, if enough others are left.
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
    [[nodiscard]] const TypicalWork& typical() const { return *typical_; }

    [[nodiscard]] std::size_t ranks() const { return rows_.ranks().size(); }
    [[nodiscard]] bool is_comm(std::uint32_t key) const { return model_->keys[key].is_comm; }
    /// Calls `use(graph, node)` for the local work, or the communication, of all steps.
    template <typename Use>
    void for_each_work(Use use, bool of_comm = false) const {
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (is_comm(graph.keys[node]) == of_comm) use(graph, node);
    }
    [[nodiscard]] PhaseSums no_sums() const { return PhaseSums(rows_.names().size()); }
    /// The sums of what `ms_of(graph, node)` says of these.
    template <typename MsOf>
    [[nodiscard]] PhaseSums sum_by_phase(MsOf ms_of, bool of_comm = false) const {
        PhaseSums sums_ms = no_sums();
        const auto add = [&](const StepGraph& graph, std::size_t node) {
            sums_ms[model_->keys[graph.keys[node]].name] += graph.weight * static_cast<double>(ms_of(graph, node));
        };
        for_each_work(add, of_comm);
        return sums_ms;
    }
    /// The name of the phase with the most; "" if none has any.
    [[nodiscard]] std::string largest_phase(const PhaseSums& sums_ms) const {
        const auto largest = std::max_element(sums_ms.begin(), sums_ms.end());
        return largest == sums_ms.end() || !(*largest > 0)
                   ? ""
                   : std::string(rows_.names()[static_cast<std::size_t>(largest - sums_ms.begin())].name);
    }
    /// By rank: whether one of the findings is of it, of those that `use` says.
    template <typename Use>
    [[nodiscard]] std::vector<bool> ranks_of(std::span<const Finding> findings, Use use) const {
        std::vector<bool> is_of(ranks());
        for (const Finding& finding : findings) {
            if (!use(finding)) continue;
            for (std::size_t i = 0; i < is_of.size(); ++i)
                if (std::binary_search(finding.ranks.begin(), finding.ranks.end(), rows_.ranks()[i].rank))
                    is_of[i] = true;
        }
        return is_of;
    }
    [[nodiscard]] std::vector<bool> ranks_of(std::span<const Finding> findings) const {
        return ranks_of(findings, [](const Finding&) { return true; });
    }
    /// As observed, median.
    [[nodiscard]] double usual_step_ms() const {
        std::vector<double> steps_ms;
        for (const StepGraph& graph : graphs_) steps_ms.push_back(graph.observed_ms);
        return median_of(std::move(steps_ms));
    }

  private:
    JobRows rows_;
    Replay facts_;
    std::optional<JobModel> model_;
    std::vector<StepGraph> graphs_;
    std::optional<TypicalWork> typical_;
    std::optional<Replayer> replayer_;
};

/// Each node takes what `ms_of(graph, node)` says.
template <typename MsOf>
[[nodiscard]] Scenario with_work(MsOf ms_of) {
    return {[ms_of = std::move(ms_of)](const StepGraph& graph, std::span<float> own_ms) {
        for (std::size_t node = 0; node < own_ms.size(); ++node) own_ms[node] = ms_of(graph, node);
    }};
}

}  // namespace cep::tool
