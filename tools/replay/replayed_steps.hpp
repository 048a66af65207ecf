// SPDX-License-Identifier: Apache-2.0
//
// Replayed steps: the graphs of a job's steps, what is known of their work, and sums over all of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "replay/finding.hpp"
#include "replay/replayer.hpp"
#include "replay/typical_work.hpp"

namespace cep::tool {

/// Milliseconds by phase, an index into JobRows::names().
using PhaseSums = std::vector<double>;

struct ReplayedSteps {
    std::span<const StepGraph> graphs;
    const JobModel& model;
    const TypicalWork& typical;
    const Replayer& replayer;

    [[nodiscard]] std::size_t ranks() const { return model.rows->ranks().size(); }
    [[nodiscard]] bool is_comm(std::uint32_t key) const { return model.keys[key].is_comm; }
    /// Calls `use(graph, node)` for the local work of all steps.
    template <typename Use>
    void for_each_work(Use use) const {
        for (const StepGraph& graph : graphs)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (!is_comm(graph.keys[node])) use(graph, node);
    }
    [[nodiscard]] PhaseSums no_sums() const { return PhaseSums(model.rows->names().size()); }
    /// The sums of what `ms_of(graph, node)` says of local work.
    template <typename MsOf>
    [[nodiscard]] PhaseSums sum_by_phase(MsOf ms_of) const {
        PhaseSums sums_ms = no_sums();
        for_each_work([&](const StepGraph& graph, std::size_t node) {
            sums_ms[model.keys[graph.keys[node]].name] += graph.weight * static_cast<double>(ms_of(graph, node));
        });
        return sums_ms;
    }
    /// The name of the phase with the most; "" if none has any.
    [[nodiscard]] std::string largest_phase(const PhaseSums& sums_ms) const {
        const auto largest = std::max_element(sums_ms.begin(), sums_ms.end());
        return largest == sums_ms.end() || !(*largest > 0)
                   ? ""
                   : std::string(model.rows->names()[static_cast<std::size_t>(largest - sums_ms.begin())].name);
    }
    /// By rank: whether one of the findings is of it, of those that `use` says.
    template <typename Use>
    [[nodiscard]] std::vector<bool> ranks_of(std::span<const Finding> findings, Use use) const {
        std::vector<bool> is_of(ranks());
        for (const Finding& finding : findings) {
            if (!use(finding)) continue;
            for (std::size_t i = 0; i < is_of.size(); ++i)
                if (std::binary_search(finding.ranks.begin(), finding.ranks.end(), model.rows->ranks()[i].rank))
                    is_of[i] = true;
        }
        return is_of;
    }
    [[nodiscard]] std::vector<bool> ranks_of(std::span<const Finding> findings) const {
        return ranks_of(findings, [](const Finding&) { return true; });
    }
    [[nodiscard]] std::vector<bool> chosen(std::span<const std::uint32_t> some_ranks) const {
        std::vector<bool> is_chosen(ranks());
        for (const std::uint32_t rank : some_ranks) is_chosen[rank] = true;
        return is_chosen;
    }
};

/// Each node takes what `ms_of(graph, node)` says.
template <typename MsOf>
[[nodiscard]] Scenario with_work(MsOf ms_of) {
    return {[ms_of = std::move(ms_of)](const StepGraph& graph, std::span<float> own_ms) {
        for (std::size_t node = 0; node < own_ms.size(); ++node) own_ms[node] = ms_of(graph, node);
    }};
}

}  // namespace cep::tool
