// SPDX-License-Identifier: Apache-2.0
//
// Replayer: goes through the graphs of all steps with other durations of its nodes.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "replay/step_graph.hpp"

namespace cep::tool {

struct Scenario {
    /// Durations of the nodes of a step, in ms; called with room for all, which holds what was observed.
    std::function<void(const StepGraph& graph, std::span<float> own_ms)> set_work;
    std::vector<bool> prompt{};  // by rank: begins its work no later than its role usually does; empty: as they were
    std::vector<bool> usual_hosts{};  // by rank: launches no later than the median rank; empty: as they were
};

inline const Scenario as_it_was = {[](const StepGraph& /*graph*/, std::span<float> /*own_ms*/) {}};

/// By key: how long it may be, in ms, from the end of what a piece waits for to its start. Empty: pieces start at once.
using Delays = std::vector<float>;

/// Delays that pieces always have: the least over the ranks of their role in a step, typical over steps. What exceeds
/// that is a wait for something that no row shows, or a host that is late.
[[nodiscard]] Delays usual_delays(std::span<const StepGraph> graphs, const JobModel& model);

class Replayer {
  public:
    /// `keys`: those that the graphs refer to.
    Replayer(std::span<const StepGraph> graphs, std::span<const NodeKey> keys, std::size_t ranks, std::size_t threads)
        : graphs_(graphs), keys_(keys), ranks_(ranks), threads_(threads) {}

    [[nodiscard]] std::size_t threads() const { return threads_; }
    /// `usual`: those of ranks that are prompt in a scenario.
    void set_delays(Delays delays, Delays usual) {
        delays_ = std::move(delays);
        usual_delays_ = std::move(usual);
    }
    /// What each step takes in each scenario, by step: from the mean end over ranks to the next one. What a rank loses
    /// in one step and makes good in the next is no loss. Long steps follow each other, as do the others.
    [[nodiscard]] std::vector<std::vector<double>> steps_ms(std::span<const Scenario> scenarios) const;
    /// The mean of the times that steps_ms() gives for a scenario.
    [[nodiscard]] double mean_ms(std::span<const double> steps_ms) const;
    /// Mean time of a step in each scenario.
    [[nodiscard]] std::vector<double> mean_steps_ms(std::span<const Scenario> scenarios) const;
    [[nodiscard]] double mean_step_ms(const Scenario& scenario) const;

  private:
    template <std::size_t Lanes>
    void replay(std::span<const Scenario> scenarios, std::span<std::vector<double>> steps_ms) const;
    template <std::size_t Lanes>
    void advance_others(const StepGraph& graph, const std::array<double, Lanes>& step_ms,
                        std::vector<double>& ends_ms) const;
    template <std::size_t Lanes>
    void replay_step(const StepGraph& graph, std::span<const Scenario> scenarios, const std::vector<float>& own_ms,
                     std::vector<double>& ends_ms) const;
    template <std::size_t Lanes>
    [[nodiscard]] std::array<double, Lanes> delays_ms(const StepGraph& graph, std::size_t node, const GraphEdge& wait,
                                                      std::span<const Scenario> scenarios) const;

    std::span<const StepGraph> graphs_;
    std::span<const NodeKey> keys_;
    std::size_t ranks_;
    std::size_t threads_;
    Delays usual_delays_;
    Delays delays_;
};

}  // namespace cep::tool
