// SPDX-License-Identifier: Apache-2.0
#include "replay/replayer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "stats/robust.hpp"

namespace cep::tool {

Delays usual_delays(std::span<const StepGraph> graphs, const JobModel& model) {
    constexpr std::size_t most_steps = 500;
    const std::size_t stride = graphs.size() / most_steps + 1;
    const std::size_t chosen = (graphs.size() + stride - 1) / stride;
    std::vector<std::vector<double>> of_key(model.keys.size());
    std::vector<float> least_ms(model.keys.size());
    for (std::size_t i = 0; i < chosen; ++i) {
        const StepGraph& graph = graphs[index_in_segment(i, chosen, graphs.size())];
        std::fill(least_ms.begin(), least_ms.end(), INFINITY);
        for (const GraphEdge& edge : graph.edges) least_ms[edge.key] = std::min(least_ms[edge.key], edge.delay_ms);
        for (std::size_t key = 0; key < least_ms.size(); ++key)
            if (!std::isinf(least_ms[key])) of_key[key].push_back(least_ms[key]);
    }
    Delays delays(model.keys.size());
    for (std::size_t key = 0; key < delays.size(); ++key)
        if (!of_key[key].empty())
            delays[key] = static_cast<float>(
                quantile_of(of_key[key], model.roles.members[model.keys[key].role].size() > 1 ? 0.5 : 0.1));
    return delays;
}

double Replayer::mean_ms(std::span<const double> steps_ms) const {
    double sum_ms = 0;
    for (std::size_t i = 0; i < steps_ms.size(); ++i) sum_ms += graphs_[i].weight * steps_ms[i];
    return sum_ms / static_cast<double>(std::max<std::size_t>(1, steps_ms.size()));
}

std::vector<double> Replayer::mean_steps_ms(std::span<const Scenario> scenarios) const {
    std::vector<double> means_ms;
    for (const std::vector<double>& of_scenario : steps_ms(scenarios)) means_ms.push_back(mean_ms(of_scenario));
    return means_ms;
}

double Replayer::mean_step_ms(const Scenario& scenario) const {
    return mean_steps_ms(std::span(&scenario, 1)).front();
}

std::vector<std::vector<double>> Replayer::steps_ms(std::span<const Scenario> scenarios) const {
    constexpr std::size_t lanes = 8;
    std::vector<std::vector<double>> steps_ms(scenarios.size());
    // Smaller batches where threads would have none.
    const std::size_t batch = scenarios.size() > lanes / 2 * threads_ ? lanes : scenarios.size() > threads_ ? 4 : 1;
    const std::size_t batches = (scenarios.size() + batch - 1) / batch;
    for_all(batches, threads_, [&](std::size_t i) {
        const std::size_t count = std::min(batch, scenarios.size() - i * batch);
        const auto some = scenarios.subspan(i * batch, count);
        const auto times = std::span(steps_ms).subspan(i * batch, count);
        if (count == 1) {
            replay<1>(some, times);
        } else if (count <= lanes / 2) {
            replay<lanes / 2>(some, times);
        } else {
            replay<lanes>(some, times);
        }
    });
    return steps_ms;
}

/// Ranks without rows of a step did it in the time of the others.
template <std::size_t Lanes>
void Replayer::advance_others(const StepGraph& graph, const std::array<double, Lanes>& step_ms,
                              std::vector<double>& ends_ms) const {
    auto recorded = graph.ends.begin();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        if (recorded != graph.ends.end() && recorded->first == rank) {
            ++recorded;
            continue;
        }
        for (std::size_t i = 0; i < Lanes; ++i) ends_ms[rank * Lanes + i] += step_ms[i];
    }
}

template <std::size_t Lanes>
void Replayer::replay(std::span<const Scenario> scenarios, std::span<std::vector<double>> steps_ms) const {
    std::vector<double> ends_ms(ranks_ * Lanes);    // of ranks, then of nodes
    std::vector<double> others_ms(ranks_ * Lanes);  // ends of ranks in long steps, or in the others
    bool are_long = false;
    std::vector<float> own_ms;
    std::array<std::vector<float>, Lanes> work_ms;
    for (const StepGraph& graph : graphs_) {
        if (std::exchange(are_long, graph.is_long) != graph.is_long)
            std::swap_ranges(others_ms.begin(), others_ms.end(), ends_ms.begin());
        own_ms.resize(std::max(own_ms.size(), graph.size() * Lanes));
        for (std::size_t i = 0; i < Lanes; ++i) {
            work_ms[i] = graph.own_ms;
            if (i < scenarios.size()) scenarios[i].set_work(graph, work_ms[i]);
        }
        for (std::size_t node = 0; node < graph.size(); ++node)
            for (std::size_t i = 0; i < Lanes; ++i) own_ms[node * Lanes + i] = work_ms[i][node];
        ends_ms.resize(std::max(ends_ms.size(), (ranks_ + graph.size()) * Lanes));
        replay_step<Lanes>(graph, scenarios, own_ms, ends_ms);
        std::array<double, Lanes> means_ms{};
        for (const auto& [rank, node] : graph.ends)
            for (std::size_t i = 0; i < Lanes; ++i) {
                double& end_ms = ends_ms[rank * Lanes + i];
                means_ms[i] += ends_ms[(ranks_ + node) * Lanes + i] - end_ms;
                end_ms = ends_ms[(ranks_ + node) * Lanes + i];
            }
        for (std::size_t i = 0; i < Lanes; ++i) means_ms[i] /= static_cast<double>(graph.ends.size());
        if (graph.ends.size() < ranks_) advance_others<Lanes>(graph, means_ms, ends_ms);
        for (std::size_t i = 0; i < scenarios.size(); ++i) steps_ms[i].push_back(means_ms[i]);
    }
}

/// By scenario: from the end of what a node waits for to its start.
template <std::size_t Lanes>
std::array<double, Lanes> Replayer::delays_ms(const StepGraph& graph, std::size_t node, const GraphEdge& wait,
                                              std::span<const Scenario> scenarios) const {
    std::array<double, Lanes> delays{};
    if (delays_.empty() || !(wait.delay_ms > 0)) return delays;
    const bool is_comm = keys_[graph.keys[node]].is_comm;
    const std::uint32_t before = wait.from < ranks_ ? wait.from : graph.ranks[wait.from - ranks_];
    const std::uint32_t rank = is_comm ? before : graph.ranks[node];
    delays.fill(graph.keeps_delays ? wait.delay_ms : std::min(wait.delay_ms, delays_[wait.key]));
    for (std::size_t i = 0; i < scenarios.size(); ++i)
        if (!scenarios[i].prompt.empty() && scenarios[i].prompt[rank])
            delays[i] = std::min<double>(delays[i], usual_delays_[wait.key]);
    return delays;
}

template <std::size_t Lanes>
void Replayer::replay_step(const StepGraph& graph, std::span<const Scenario> scenarios,
                           const std::vector<float>& own_ms, std::vector<double>& ends_ms) const {
    std::uint32_t edge = 0;
    for (std::size_t node = 0; node < graph.size(); ++node) {
        std::array<double, Lanes> start_ms{};
        for (; edge < graph.edge_ends[node]; ++edge) {
            const GraphEdge& wait = graph.edges[edge];
            const double* const from_ms = &ends_ms[wait.from * Lanes];
            const std::array<double, Lanes> delay_ms = delays_ms<Lanes>(graph, node, wait, scenarios);
            if (!std::isnan(wait.usual_ms)) {
                const float usual_ms = std::min(wait.behind, wait.usual_ms);
                for (std::size_t i = 0; i < Lanes; ++i) {
                    const bool is_usual = i < scenarios.size() && !scenarios[i].usual_hosts.empty() &&
                                          scenarios[i].usual_hosts[graph.ranks[node]];
                    start_ms[i] =
                        std::max(start_ms[i], from_ms[i] + static_cast<double>(is_usual ? usual_ms : wait.behind));
                }
            } else if (wait.behind >= 0) {
                const auto behind_ms = static_cast<double>(wait.behind);
                for (std::size_t i = 0; i < Lanes; ++i)
                    start_ms[i] = std::max(start_ms[i], from_ms[i] + behind_ms + delay_ms[i]);
            } else {
                const float* const own = &own_ms[(wait.from - ranks_) * Lanes];
                const auto rest = static_cast<double>(wait.behind);
                for (std::size_t i = 0; i < Lanes; ++i)
                    start_ms[i] = std::max(start_ms[i], from_ms[i] + rest * static_cast<double>(own[i]) + delay_ms[i]);
            }
        }
        double* const end_ms = &ends_ms[(ranks_ + node) * Lanes];
        for (std::size_t i = 0; i < Lanes; ++i) end_ms[i] = start_ms[i] + static_cast<double>(own_ms[node * Lanes + i]);
    }
}

}  // namespace cep::tool
