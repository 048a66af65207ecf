// SPDX-License-Identifier: Apache-2.0
//
// Chosen work: some of the very many durations of a job's work, from the first to the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "replay/step_graph.hpp"

namespace cep::tool {

/// The durations of recorded work, by the number that `number_of(graph, node)` gives it; without those of no_index. Of
/// each number every n-th, so that there are at most `most`.
template <typename NumberOf>
[[nodiscard]] std::vector<std::vector<double>> choose_work(std::span<const StepGraph> graphs, std::size_t most,
                                                           NumberOf number_of) {
    const auto for_each = [&](auto use) {
        for (const StepGraph& graph : graphs)
            for (std::size_t node = 0; node < graph.size(); ++node) {
                if (graph.weights[node] != Weight::observed) continue;
                const std::uint32_t number = number_of(graph, node);
                if (number != no_index) use(number, graph.own_ms[node]);
            }
    };
    std::vector<std::size_t> counts;
    for_each([&](std::uint32_t number, float) {
        if (counts.size() <= number) counts.resize(number + 1);
        ++counts[number];
    });
    std::vector<std::size_t> seen(counts.size());
    std::vector<std::vector<double>> chosen(counts.size());
    for_each([&](std::uint32_t number, float own_ms) {
        if (seen[number]++ % (counts[number] / most + 1) == 0) chosen[number].push_back(own_ms);
    });
    return chosen;
}

}  // namespace cep::tool
