// SPDX-License-Identifier: Apache-2.0
#include "verdict/own_work.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "stats/robust.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// By rank, in how many steps it has a row of a phase.
using StepCounts = std::vector<std::size_t>;

StepCounts count_steps(const StepMatrix& phase_ms) {
    StepCounts counts;
    for (std::size_t rank = 0; rank < phase_ms.ranks(); ++rank) counts.push_back(count_values(phase_ms.of_rank(rank)));
    return counts;
}

/// Of one phase and the ranks of one role: which of the rows that are not there were lost. A phase that one rank does,
/// or that the ranks do in turns, is no work of the others.
class LostRows {
  public:
    /// `counts`: of the phase. `fullest`: of each rank's phase of most rows.
    LostRows(const StepMatrix& phase_ms, const PeerGroup& group, const StepCounts& counts, const StepCounts& fullest)
        : counts_(counts), fullest_(fullest), ranks_of_step_(phase_ms.steps()), ranks_(group.ranks.size()) {
        for (const std::size_t rank : group.ranks)
            for (std::size_t step = 0; step < ranks_of_step_.size(); ++step)
                ranks_of_step_[step] += !is_missing(phase_ms.at(rank, step));
        const auto without = std::count(ranks_of_step_.begin(), ranks_of_step_.end(), std::size_t{0});
        steps_ = ranks_of_step_.size() - static_cast<std::size_t>(without);
    }

    /// Of a row that is not there: the rank has most of the rows that it could have, or most ranks have theirs in this
    /// step.
    [[nodiscard]] bool is_lost(std::size_t rank, std::size_t step) const {
        const std::size_t steps = counts_[rank];
        return 2 * steps > std::min(steps_, fullest_[rank]) || (steps > 0 && 2 * ranks_of_step_[step] > ranks_);
    }

  private:
    const StepCounts& counts_;
    const StepCounts& fullest_;
    std::vector<std::size_t> ranks_of_step_;  // that have a row in it
    const std::size_t ranks_;
    std::size_t steps_ = 0;  // in which any rank has one
};

/// `lost`: nothing where every rank has all rows.
void add_phase(const StepMatrix& phase_ms, const PeerGroup& group, const std::optional<LostRows>& lost,
               StepMatrix& own_ms) {
    std::vector<double> usual_ms;
    if (lost) usual_ms = quantiles_over_ranks(phase_ms, group.ranks, 0.5);
    for (const std::size_t rank : group.ranks)
        for (std::size_t step = 0; step < own_ms.steps(); ++step) {
            double ms = phase_ms.at(rank, step);
            if (is_missing(ms) && lost->is_lost(rank, step)) ms = usual_ms[step];
            if (!is_missing(ms)) own_ms.add_to_cell(rank * own_ms.steps() + step, ms);
        }
}

}  // namespace

StepMatrix own_work(const JobTable& table, const std::vector<PeerGroup>& groups) {
    StepMatrix own_ms(table.ranks.size(), table.steps.size());
    std::vector<StepCounts> counts;
    StepCounts fullest(table.ranks.size());
    for (const LocalPhase& phase : table.local) {
        counts.push_back(count_steps(phase.own_ms));
        std::transform(fullest.begin(), fullest.end(), counts.back().begin(), fullest.begin(),
                       [](std::size_t a, std::size_t b) { return std::max(a, b); });
    }
    for (const PeerGroup& group : groups)
        for (std::size_t i = 0; i < table.local.size(); ++i) {
            const StepMatrix& phase_ms = table.local[i].own_ms;
            const bool any_missing = std::any_of(group.ranks.begin(), group.ranks.end(), [&](std::size_t rank) {
                return counts[i][rank] < table.steps.size();
            });
            std::optional<LostRows> lost;
            if (any_missing) lost.emplace(phase_ms, group, counts[i], fullest);
            add_phase(phase_ms, group, lost, own_ms);
        }
    return own_ms;
}

WhatIf::WhatIf(const JobTable& table, const StepMatrix& own_ms, const std::vector<PeerGroup>& groups,
               const SlowSteps& slow, bool waits_inside)
    : own_ms_(own_ms), slow_(slow), slowest_other_ms_(table.steps.size()) {
    for (std::size_t rank = 0; rank < slow.size(); ++rank)
        if (!slow[rank].empty()) slow_ranks_.push_back(rank);
    find_slowest_others();
    bool is_bounded = waits_inside;
    for (const PeerGroup& group : groups) is_bounded |= group.pp != groups.front().pp;
    if (!is_bounded) return;
    least_wait_ms_.resize(slow.size());
    // Collectives of two ranks are those of a pipeline's neighbours, or of a role that has no more.
    for (const PeerGroup& group : groups)
        find_least_waits(group.ranks.size() < 3 ? table.wait_ms : table.group_wait_ms, group);
}

void WhatIf::find_slowest_others() {
    std::fill(slowest_other_ms_.begin(), slowest_other_ms_.end(), -infinity);
    for (std::size_t rank = 0; rank < slow_.size(); ++rank) {
        const std::span<const float> own_ms = own_ms_.of_rank(rank);
        for (std::size_t step = 0; step < own_ms.size(); ++step)
            if (slow_[rank].empty() || !slow_[rank][step])
                slowest_other_ms_[step] = std::max<double>(slowest_other_ms_[step], own_ms[step]);
    }
    std::replace(slowest_other_ms_.begin(), slowest_other_ms_.end(), -infinity,
                 std::numeric_limits<double>::quiet_NaN());
}

void WhatIf::find_least_waits(const StepMatrix& wait_ms, const PeerGroup& group) {
    const bool any_slow =
        std::any_of(group.ranks.begin(), group.ranks.end(), [this](std::size_t rank) { return !slow_[rank].empty(); });
    if (!any_slow) return;
    auto least_ms = std::make_shared<std::vector<double>>(wait_ms.steps(), infinity);
    for (const std::size_t rank : group.ranks)
        for (std::size_t step = 0; step < wait_ms.steps(); ++step)
            if (slow_[rank].empty() || !slow_[rank][step])
                (*least_ms)[step] = std::min((*least_ms)[step], wait_ms.at(rank, step));
    for (const std::size_t rank : group.ranks) least_wait_ms_[rank] = least_ms;
}

double WhatIf::saved_by_ms(std::size_t rank, std::size_t step, double less_ms) const {
    const double excess_ms = own_ms_.at(rank, step) - less_ms - slowest_other_ms_[step];
    if (!(excess_ms > 0)) return 0;
    return least_wait_ms_.empty() ? excess_ms : std::min(excess_ms, (*least_wait_ms_[rank])[step]);
}

double WhatIf::saved_ms(std::size_t step) const {
    double most_ms = 0;
    for (const std::size_t rank : slow_ranks_)
        if (slow_[rank][step]) most_ms = std::max(most_ms, saved_by_ms(rank, step));
    return most_ms;
}

}  // namespace cep::tool
