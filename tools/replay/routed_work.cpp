// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "base/units.hpp"
#include "matching/operation.hpp"
#include "replay/special_causes.hpp"

namespace cep::tool {
namespace {

struct StepSum {
    double ms = 0;
    double ranks = 0;

    [[nodiscard]] double mean_ms() const { return ms / ranks; }
};
/// The sums of one step, by key.
using StepSums = std::map<std::uint32_t, StepSum>;

StepSums sums_of(const StepGraph& graph, const std::vector<bool>& is_routed) {
    StepSums sums;
    for (std::size_t node = 0; node < graph.size(); ++node)
        if (is_routed[graph.keys[node]]) {
            StepSum& sum = sums[graph.keys[node]];
            sum.ms += static_cast<double>(graph.own_ms[node]);
            ++sum.ranks;
        }
    return sums;
}

// Work that goes out with an all-to-all comes back with the next one. Those without work between them are one.
void find_routed_slots(const JobModel& model, std::uint32_t role, std::vector<bool>& is_routed) {
    const RoleTemplate& of_role = model.templates[role];
    std::vector<std::uint32_t> routed;
    bool is_out = false;
    bool any_work = true;  // since the last all-to-all
    for (const std::uint32_t slot : of_role.by_offset) {
        const TemplateSlot& piece = of_role.slots[slot];
        if (!piece.is_comm) {
            any_work = true;
            if (is_out) routed.push_back(model.key_of_slot(role, slot));
        } else if (operation_of_name(model.rows->names()[PieceKey::name(piece.key)].name) == Operation::all_to_all) {
            if (any_work) is_out = !is_out;
            any_work = false;
        }
    }
    if (is_out) return;  // what goes out does not come back: these are no experts
    for (const std::uint32_t key : routed) is_routed[key] = true;
}

/// In ms, over steps.
struct RoutedLoad {
    std::vector<double> of_rank_ms;
    double all_ms = 0;
    double most_ms = 0;  // of the rank with the most in each step

    void add(const std::vector<double>& of_step_ms, double weight) {
        for (std::size_t rank = 0; rank < of_step_ms.size(); ++rank) {
            of_rank_ms[rank] += weight * of_step_ms[rank];
            all_ms += weight * of_step_ms[rank];
        }
        most_ms += weight * *std::max_element(of_step_ms.begin(), of_step_ms.end());
    }
};

void describe(const JobReplay& steps, const RoutedLoad& load, Finding& cause) {
    constexpr double least_of_one = 0.5;  // of what the rank with the most has beyond the mean: it is mostly the same
    const auto count = static_cast<double>(steps.graphs().size());
    const auto busiest = std::max_element(load.of_rank_ms.begin(), load.of_rank_ms.end());
    const double mean_ms = load.all_ms / static_cast<double>(load.of_rank_ms.size());
    const bool is_one_rank = *busiest - mean_ms > least_of_one * (load.most_ms - mean_ms);
    if (is_one_rank)
        cause.ranks = {steps.rows().ranks()[static_cast<std::size_t>(busiest - load.of_rank_ms.begin())].rank};
    cause.slow_ms = (is_one_rank ? *busiest : load.most_ms) / count;
    cause.usual_ms = mean_ms / count;
    const DurationFormat duration(*cause.usual_ms, *cause.slow_ms);
    cause.text = {
        fmt::format("work that ranks send each other is uneven: {} has {} of it a step, the mean is {}",
                    is_one_rank ? name_of(cause.ranks, {}) : "the rank with the most, another one from step to step,",
                    duration(*cause.slow_ms), duration(*cause.usual_ms)),
        "with the same work spread evenly", "uneven routing",
        "spread tokens over the experts: a capacity factor, a loss that balances the load, or other places "
        "of the experts"};
}

}  // namespace

std::vector<bool> find_routed_keys(const JobModel& model) {
    std::vector<bool> is_routed(model.keys.size());
    for (std::uint32_t role = 0; role < model.templates.size(); ++role) find_routed_slots(model, role, is_routed);
    return is_routed;
}

std::optional<SpecialCause> find_routed_work(const JobReplay& steps, const std::vector<bool>& is_routed) {
    if (std::find(is_routed.begin(), is_routed.end(), true) == is_routed.end()) return std::nullopt;
    PhaseSums excess_ms = steps.no_sums();
    RoutedLoad load{std::vector<double>(steps.ranks())};
    for (const StepGraph& graph : steps.graphs()) {
        const StepSums sums = sums_of(graph, is_routed);
        std::vector<double> of_step_ms(steps.ranks());
        for (std::size_t node = 0; node < graph.size(); ++node) {
            const std::uint32_t key = graph.keys[node];
            if (!is_routed[key]) continue;
            const double own_ms = static_cast<double>(graph.own_ms[node]);
            excess_ms[steps.model().keys[key].name] += graph.weight * std::max(0.0, own_ms - sums.at(key).mean_ms());
            of_step_ms[graph.ranks[node]] += own_ms;
        }
        load.add(of_step_ms, graph.weight);
    }
    if (!(load.all_ms > 0)) return std::nullopt;
    Finding cause{.kind = FindingKind::routing};
    cause.phase = steps.largest_phase(excess_ms);
    describe(steps, load, cause);
    return SpecialCause{std::move(cause), {[is_routed](const StepGraph& graph, std::span<float> own_ms) {
                            const StepSums sums = sums_of(graph, is_routed);
                            for (std::size_t node = 0; node < own_ms.size(); ++node)
                                if (const auto sum = sums.find(graph.keys[node]); sum != sums.end())
                                    own_ms[node] = static_cast<float>(sum->second.mean_ms());
                        }}};
}

}  // namespace cep::tool
