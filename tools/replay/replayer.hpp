// SPDX-License-Identifier: Apache-2.0
//
// Replayer: goes through the graphs of all steps with other durations of its nodes.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "replay/step_graph.hpp"

namespace cep::tool {

/// Durations of the nodes of a step, in ms; called with room for all, which holds what was observed.
using Scenario = std::function<void(const StepGraph& graph, std::span<float> own_ms)>;

/// By key: how long it may be, in ms, from the end of what a piece waits for to its start. Empty: pieces start at once.
using Delays = std::vector<float>;

/// Delays that pieces always have: the least over the ranks of their role in a step, typical over steps. What exceeds
/// that is a wait for something that no row shows, or a host that is late.
[[nodiscard]] Delays usual_delays(std::span<const StepGraph> graphs, const JobModel& model);

class Replayer {
  public:
    Replayer(std::span<const StepGraph> graphs, std::size_t ranks, std::size_t threads)
        : graphs_(graphs), ranks_(ranks), threads_(threads) {}

    void set_delays(Delays delays) { delays_ = std::move(delays); }
    /// Mean time of a step in each scenario: what the ends of ranks advance by, as what a rank loses in one step and
    /// makes good in the next is no loss.
    [[nodiscard]] std::vector<double> mean_steps_ms(std::span<const Scenario> scenarios) const;
    [[nodiscard]] double mean_step_ms(const Scenario& scenario) const;

  private:
    template <std::size_t Lanes>
    void replay(std::span<const Scenario> scenarios, std::span<double> means_ms) const;
    template <std::size_t Lanes>
    void replay_step(const StepGraph& graph, const std::vector<float>& own_ms, std::vector<double>& ends_ms) const;

    std::span<const StepGraph> graphs_;
    std::size_t ranks_;
    std::size_t threads_;
    Delays delays_;
};

}  // namespace cep::tool
