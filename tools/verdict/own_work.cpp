// SPDX-License-Identifier: Apache-2.0
#include "verdict/own_work.hpp"

#include <algorithm>
#include <limits>

#include "stats/robust.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Of one phase and the ranks of one role: which of the rows that are not there were lost. A phase that one rank does,
/// or that the ranks do in turns, is no work of the others.
class LostRows {
  public:
    LostRows(const StepMatrix& phase_ms, const PeerGroup& group)
        : steps_of_rank_(phase_ms.ranks()), ranks_of_step_(phase_ms.steps()), ranks_(group.ranks.size()) {
        for (const std::size_t rank : group.ranks)
            for (std::size_t step = 0; step < ranks_of_step_.size(); ++step) {
                const bool has_row = !is_missing(phase_ms.at(rank, step));
                steps_of_rank_[rank] += has_row;
                ranks_of_step_[step] += has_row;
            }
        for (const std::size_t ranks : ranks_of_step_) {
            steps_ += ranks > 0;
            any_missing_ |= ranks < ranks_;
        }
    }

    [[nodiscard]] bool any_missing() const { return any_missing_; }
    /// Of a row that is not there: the rank does the phase in most of the steps in which any rank does, or most ranks
    /// did it in this step.
    [[nodiscard]] bool is_lost(std::size_t rank, std::size_t step) const {
        const std::size_t steps = steps_of_rank_[rank];
        return 2 * steps > steps_ || (steps > 0 && 2 * ranks_of_step_[step] > ranks_);
    }

  private:
    std::vector<std::size_t> steps_of_rank_;  // in which it has a row
    std::vector<std::size_t> ranks_of_step_;  // that have a row in it
    const std::size_t ranks_;
    std::size_t steps_ = 0;  // in which any rank has one
    bool any_missing_ = false;
};

}  // namespace

StepMatrix own_work(const JobTable& table, const std::vector<PeerGroup>& groups) {
    StepMatrix own_ms(table.ranks.size(), table.steps.size());
    for (const PeerGroup& group : groups)
        for (const LocalPhase& phase : table.local) {
            const LostRows lost(phase.own_ms, group);
            std::vector<double> usual_ms;
            if (lost.any_missing()) usual_ms = quantiles_over_ranks(phase.own_ms, group.ranks, 0.5);
            for (const std::size_t rank : group.ranks)
                for (std::size_t step = 0; step < table.steps.size(); ++step) {
                    double ms = phase.own_ms.at(rank, step);
                    if (is_missing(ms) && lost.is_lost(rank, step)) ms = usual_ms[step];
                    if (!is_missing(ms)) own_ms.add_to_cell(rank * table.steps.size() + step, ms);
                }
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
