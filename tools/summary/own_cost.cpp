// SPDX-License-Identifier: Apache-2.0
#include "summary/own_cost.hpp"

#include <vector>

#include "stats/robust.hpp"

namespace cep::tool {

std::optional<OwnCost> find_own_cost(const Job& job) {
    const StepPhase step = find_step_phase(all_series(job.ranks));
    if (!step.found || !job.filter.steps().empty()) return std::nullopt;
    std::vector<double> shares;
    OwnCost cost;
    for (const auto& [rank, series] : job.ranks) {
        double own_ms = 0;
        double steps_ms = 0;
        for (const RunSeries& run : series) {
            if (run.has_stats) own_ms += run.stats.trainer_ms;
            for (const PhaseSeries& phase : run.phases)
                if (phase.name == step.name) steps_ms += totals_of(phase).sum_ms;
        }
        if (own_ms <= 0 || steps_ms <= 0) continue;
        shares.push_back(own_ms / steps_ms);
        if (shares.back() <= cost.largest_share) continue;
        cost.largest_share = shares.back();
        cost.largest_rank = rank;
    }
    if (shares.empty()) return std::nullopt;
    cost.median_share = median_of(shares);
    return cost;
}

}  // namespace cep::tool
