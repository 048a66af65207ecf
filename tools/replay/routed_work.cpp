// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

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

}  // namespace

std::vector<bool> find_routed_keys(const JobModel& model) {
    std::vector<bool> is_routed(model.keys.size());
    for (std::uint32_t role = 0; role < model.templates.size(); ++role) find_routed_slots(model, role, is_routed);
    return is_routed;
}

std::optional<SpecialCause> find_routed_work(const JobReplay& steps, const std::vector<bool>& is_routed) {
    if (std::find(is_routed.begin(), is_routed.end(), true) == is_routed.end()) return std::nullopt;
    PhaseSums excess_ms = steps.no_sums();
    std::vector<double> of_rank_ms(steps.ranks());
    double all_ms = 0;
    for (const StepGraph& graph : steps.graphs()) {
        const StepSums sums = sums_of(graph, is_routed);
        for (std::size_t node = 0; node < graph.size(); ++node) {
            const std::uint32_t key = graph.keys[node];
            if (!is_routed[key]) continue;
            const double own_ms = static_cast<double>(graph.own_ms[node]);
            excess_ms[steps.model().keys[key].name] += graph.weight * std::max(0.0, own_ms - sums.at(key).mean_ms());
            of_rank_ms[graph.ranks[node]] += graph.weight * own_ms;
            all_ms += graph.weight * own_ms;
        }
    }
    if (!(all_ms > 0)) return std::nullopt;
    Finding cause{.kind = FindingKind::routing};
    cause.phase = steps.largest_phase(excess_ms);
    const auto busiest = std::max_element(of_rank_ms.begin(), of_rank_ms.end());
    cause.ranks = {steps.rows().ranks()[static_cast<std::size_t>(busiest - of_rank_ms.begin())].rank};
    const auto count = static_cast<double>(steps.graphs().size());
    cause.slow_ms = *busiest / count;
    cause.usual_ms = all_ms / count / static_cast<double>(of_rank_ms.size());
    const DurationFormat duration(*cause.usual_ms, *cause.slow_ms);
    cause.text = {
        fmt::format("work that ranks send each other is uneven: {} has {} of it a step, the mean is {}",
                    name_of(cause.ranks, {}), duration(*cause.slow_ms), duration(*cause.usual_ms)),
        "with the same work spread evenly", "uneven routing",
        "spread tokens over the experts: a capacity factor, a loss that balances the load, or other places of "
        "the experts"};
    return SpecialCause{std::move(cause), {[is_routed](const StepGraph& graph, std::span<float> own_ms) {
                            const StepSums sums = sums_of(graph, is_routed);
                            for (std::size_t node = 0; node < own_ms.size(); ++node)
                                if (const auto sum = sums.find(graph.keys[node]); sum != sums.end())
                                    own_ms[node] = static_cast<float>(sum->second.mean_ms());
                        }}};
}

}  // namespace cep::tool
