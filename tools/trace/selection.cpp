// SPDX-License-Identifier: Apache-2.0
#include "trace/selection.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

/// Sums over the spans of one step.
struct StepCost {
    double step_ms = 0;  // of spans of the kind `step`
    double comm_ms = 0;
    Interval extent{INT64_MAX, INT64_MIN};

    /// Without communication, in which a rank waits for slower ones. Without a span of the whole step, it lasts from
    /// its first start to its last end.
    [[nodiscard]] double own_work_ms() const {
        const bool has_extent = extent.begin_ns < extent.end_ns;
        const double extent_ms = has_extent ? static_cast<double>(extent.end_ns - extent.begin_ns) * 1e-6 : 0;
        return (step_ms > 0 ? step_ms : extent_ms) - comm_ms;
    }
};

/// The median of the steps from `first_step` on; 0 for none.
double own_work_ms(const std::vector<RunSeries>& of_rank, std::int64_t first_step) {
    std::map<std::int64_t, StepCost> costs;
    for (const RunSeries& series : of_rank)
        for (const PhaseSeries& phase : series.phases)
            for (const Sample& sample : phase.samples) {
                if (series.steps[sample.step_index] < first_step) continue;
                StepCost& cost = costs[series.steps[sample.step_index]];
                if (phase.kind == schema::Kind::step) cost.step_ms += sample.duration_ms;
                if (phase.kind == schema::Kind::comm) cost.comm_ms += sample.duration_ms;
                if (!sample.has_start()) continue;
                const Interval span = sample.interval();
                cost.extent = {std::min(cost.extent.begin_ns, span.begin_ns),
                               std::max(cost.extent.end_ns, span.end_ns)};
            }
    std::vector<double> costs_ms;
    costs_ms.reserve(costs.size());
    for (const auto& [step, cost] : costs) costs_ms.push_back(cost.own_work_ms());
    return costs_ms.empty() ? 0 : median_of(costs_ms);
}

}  // namespace

std::optional<Selection> select(const Job& job, const Filter& ranks) {
    std::map<std::int64_t, std::int64_t> last_steps;  // by rank
    std::set<std::int64_t> steps;
    for (const SeriesOfRank& of : all_series(job.ranks)) {
        if (!ranks.accepts_rank(of.rank) || of.series->steps.empty()) continue;
        steps.insert(of.series->steps.begin(), of.series->steps.end());
        std::int64_t& last = last_steps.try_emplace(of.rank, INT64_MIN).first->second;
        last = std::max(last, of.series->steps.back());
    }
    if (steps.empty()) return std::nullopt;
    Selection selection{{}, {steps.begin(), steps.end()}, last_steps.size(), *steps.begin()};
    if (steps.size() > Selection::kept_steps)
        selection.steps.erase(selection.steps.begin(), selection.steps.end() - Selection::kept_steps);
    // Where there are more spans than are kept, only some steps have samples, and perhaps none of the last ones.
    const std::int64_t compared_from = job.choice.keeps_all() ? selection.steps.front() : INT64_MIN;
    std::vector<std::pair<double, std::int64_t>> by_cost;
    for (const auto& [rank, last_step] : last_steps)
        if (last_step >= selection.steps.front())
            by_cost.emplace_back(own_work_ms(job.ranks.at(rank), compared_from), rank);
    std::sort(by_cost.begin(), by_cost.end());
    const std::size_t last = by_cost.size() - 1;
    if (last >= 3) by_cost = {by_cost.front(), by_cost[last / 2], by_cost.back()};
    for (const auto& [cost_ms, rank] : by_cost) selection.ranks.push_back(rank);
    return selection;
}

}  // namespace cep::tool
