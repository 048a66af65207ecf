// SPDX-License-Identifier: Apache-2.0
//
// Even choice: some of very many values, from the first to the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "replay/step_graph.hpp"

namespace cep::tool {

/// Every n-th value of those that were counted before, at most as many as it may have.
class EvenChoice {
  public:
    void count() { ++count_; }
    [[nodiscard]] std::size_t counted() const { return count_; }
    void take(double value, std::size_t most) {
        if (seen_++ % (count_ / most + 1) == 0) values_.push_back(value);
    }
    [[nodiscard]] const std::vector<double>& values() const { return values_; }

  private:
    std::size_t count_ = 0;
    std::size_t seen_ = 0;
    std::vector<double> values_;
};

/// By what `number_of(graph, node)` says: recorded work with that number, without no_index; at most so many of each.
template <typename NumberOf>
[[nodiscard]] std::vector<EvenChoice> choose_work(std::span<const StepGraph> graphs, std::size_t most,
                                                  NumberOf number_of) {
    std::vector<EvenChoice> chosen;
    const auto for_each = [&](auto use) {
        for (const StepGraph& graph : graphs)
            for (std::size_t node = 0; node < graph.size(); ++node) {
                if (graph.weights[node] != Weight::observed) continue;
                const std::uint32_t number = number_of(graph, node);
                if (number != no_index) use(number, graph.own_ms[node]);
            }
    };
    for_each([&](std::uint32_t number, float) {
        if (chosen.size() <= number) chosen.resize(number + 1);
        chosen[number].count();
    });
    for_each([&](std::uint32_t number, float own_ms) { chosen[number].take(own_ms, most); });
    return chosen;
}

}  // namespace cep::tool
