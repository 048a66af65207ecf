// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "base/units.hpp"
#include "replay/chosen_work.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double pause_deviations = 6;      // of the same work in other steps
constexpr double least_pause_share = 0.01;  // of a step
constexpr double most_pauses = 0.25;        // of the instances of a piece: what is long more often is no pause
constexpr double most_of_one_rank = 0.5;    // of the time of all pauses: with more, it is not any rank
constexpr double nearly_all = 0.9;          // of the time of all pauses: with more, it is that rank
constexpr double most_chance = 0.001;       // that one of the ranks has all steps with pauses
constexpr std::size_t least_pauses = 4;

struct Limit {
    float usual_ms = 0;
    float most_ms = std::numeric_limits<float>::infinity();  // what is longer is a pause

    [[nodiscard]] float pause_ms(float ms) const { return ms > most_ms ? ms - usual_ms : 0; }
};

/// By key.
std::vector<Limit> find_limits(const JobReplay& steps) {
    constexpr std::size_t most_values = 5'000;  // of a piece
    const auto of_key = choose_work(steps.graphs(), most_values, [&steps](const StepGraph& graph, std::size_t node) {
        return steps.is_comm(graph.keys[node]) ? no_index : graph.keys[node];
    });
    const double least_ms = least_pause_share * steps.usual_step_ms();
    std::vector<Limit> limits(steps.model().keys.size());
    for (std::size_t key = 0; key < of_key.size(); ++key) {
        if (of_key[key].size() < least_pauses) continue;
        const std::vector<double> quantiles_ms = quantiles_of(of_key[key], {0.5, 1 - most_pauses});
        const double usual_ms = quantiles_ms[0];
        const double most_ms =
            usual_ms + std::max(pause_deviations * robust_deviation(of_key[key], usual_ms), least_ms);
        if (quantiles_ms[1] <= most_ms) limits[key] = {static_cast<float>(usual_ms), static_cast<float>(most_ms)};
    }
    return limits;
}

/// Whether steps with pauses are too many to be all of one rank by chance.
bool are_too_many(std::size_t steps, std::size_t ranks) {
    return steps >= least_pauses &&
           std::pow(static_cast<double>(ranks), 1.0 - static_cast<double>(steps)) < most_chance;
}

}  // namespace

std::optional<SpecialCause> find_pauses(const JobReplay& steps) {
    const std::vector<Limit> limits = find_limits(steps);
    const auto pause_ms = [limits](const StepGraph& graph, std::size_t node) {
        return limits[graph.keys[node]].pause_ms(graph.own_ms[node]);
    };
    std::vector<double> by_rank(steps.ranks());
    std::map<std::uint32_t, std::map<std::uint32_t, double>> steps_of;  // by rank
    std::vector<double> pauses_ms;
    steps.for_each_work([&](const StepGraph& graph, std::size_t node) {
        const auto ms = static_cast<double>(pause_ms(graph, node));
        // Lost work has the mean of the rest, and pauses are in that.
        if (!(ms > 0) || graph.weights[node] != Weight::observed) return;
        by_rank[graph.ranks[node]] += graph.weight * ms;
        steps_of[graph.ranks[node]].emplace(graph.step, graph.weight);
        pauses_ms.push_back(ms);
    });
    if (pauses_ms.size() < least_pauses) return std::nullopt;
    const auto largest = std::max_element(by_rank.begin(), by_rank.end());
    const auto most = static_cast<std::uint32_t>(largest - by_rank.begin());
    const double most_ms = *largest;
    const double all_ms = std::accumulate(by_rank.begin(), by_rank.end(), 0.0);
    const bool is_one_rank = most_ms > nearly_all * all_ms && are_too_many(steps_of[most].size(), steps.ranks());
    if (most_ms > most_of_one_rank * all_ms && !is_one_rank) return std::nullopt;
    Finding cause{.kind = is_one_rank ? FindingKind::ranks : FindingKind::pauses};
    cause.phase = steps.largest_phase(steps.sum_by_phase(pause_ms));
    cause.slow_ms = median_of(pauses_ms);
    cause.usual_ms = 0;
    if (is_one_rank) cause.hosts = {steps.rows().hosts()[steps.rows().ranks()[most].host]};
    std::map<std::uint32_t, double> with_pauses;
    for (auto& [rank, of_rank] : steps_of) {
        if (is_one_rank && rank != most) continue;
        cause.ranks.push_back(steps.rows().ranks()[rank].rank);
        with_pauses.merge(of_rank);
    }
    for (const auto& [step, weight] : with_pauses) cause.step_fraction += weight;
    cause.step_fraction /= static_cast<double>(steps.graphs().size());
    const std::string who = name_of(cause.ranks, cause.hosts);
    const std::string_view when = 2 * cause.step_fraction > 1 ? "" : " now and then";
    cause.text = {is_one_rank ? fmt::format("{} is slow{}{}, in {} of the steps", who, when, cause.in_phase(),
                                            format_percent(cause.step_fraction))
                              : fmt::format("any rank pauses now and then, for {}, most often{}",
                                            format_duration_ms(*cause.slow_ms), cause.in_phase()),
                  "without that", is_one_rank ? who : "pauses",
                  is_one_rank
                      ? "look for what stops this rank: garbage collection, other processes, clocks (nvidia-smi "
                        "-q -d CLOCK)"
                      : "look for what stops ranks: garbage collection, page cache and swap, other processes, "
                        "checkpoints of other jobs"};
    Scenario without = with_work(
        [pause_ms](const StepGraph& graph, std::size_t node) { return graph.own_ms[node] - pause_ms(graph, node); });
    without.usual_hosts.assign(steps.ranks(), true);  // what a host launches after a pause
    return SpecialCause{std::move(cause), std::move(without)};
}

}  // namespace cep::tool
