// SPDX-License-Identifier: Apache-2.0
#include "verdict/own_work.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ledger/table_quantiles.hpp"
#include "stats/robust.hpp"
#include "verdict/absent_rows.hpp"

namespace cep::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A rank whose row was lost works as its peers do in the step.
void add_phase(const RolePhase& phase, const PeerGroup& role, const std::vector<std::size_t>& rows,
               StepMatrix& own_ms) {
    std::vector<std::size_t> peers(role.ranks.size());
    std::iota(peers.begin(), peers.end(), std::size_t{0});
    const bool any_missing =
        std::any_of(rows.begin(), rows.end(), [&](std::size_t count) { return count < own_ms.steps(); });
    std::vector<double> usual_ms;
    if (any_missing) usual_ms = quantiles_over_ranks(phase.own_ms, peers, 0.5);
    for (const std::size_t peer : peers)
        for (std::size_t step = 0; step < own_ms.steps(); ++step) {
            double ms = phase.own_ms.at(peer, step);
            if (is_missing(ms) && rows[peer] > 0) ms = usual_ms[step];
            if (!is_missing(ms)) own_ms.add_to_cell(role.ranks[peer] * own_ms.steps() + step, ms);
        }
}

}  // namespace

StepMatrix own_work(const JobTable& table, const std::vector<PeerGroup>& groups) {
    const AbsentRows absent(table);
    StepMatrix own_ms(table.ranks.size(), table.steps.size());
    for (const PeerGroup& group : groups)
        for (std::size_t i = 0; i < table.local.size(); ++i) {
            std::vector<std::size_t> rows;
            for (const std::size_t rank : group.ranks) rows.push_back(absent.rows_of(i, rank));
            add_phase(absent.find(i, group), group, rows, own_ms);
        }
    return own_ms;
}

void forget_waits(const EarlyEnd& end, JobTable& table) {
    for (std::size_t step = 0; step < table.steps.size(); ++step)
        for (std::size_t rank = 0; end.is_behind(table.steps[step]) && rank < table.ranks.size(); ++rank)
            for (StepMatrix* const waits_ms : {&table.wait_ms, &table.group_wait_ms})
                waits_ms->set(rank, step, std::numeric_limits<double>::quiet_NaN());
}

bool is_next_recorded(const std::vector<std::int64_t>& steps, std::size_t step) {
    return step + 1 < steps.size() && steps[step + 1] == steps[step] + 1;
}

WhatIf::WhatIf(const JobTable& table, const StepMatrix& own_ms, const std::vector<PeerGroup>& groups,
               const SlowSteps& slow, bool waits_inside)
    : steps_(table.steps), own_ms_(own_ms), slow_(slow), slowest_other_ms_(table.steps.size()) {
    for (std::size_t rank = 0; rank < slow.size(); ++rank)
        if (!slow[rank].empty()) slow_ranks_.push_back(rank);
    find_slowest_others();
    bool is_bounded = waits_inside;
    for (const PeerGroup& group : groups) is_bounded |= group.pp != groups.front().pp;
    if (!is_bounded) return;
    least_waits_.resize(slow.size());
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
    auto least = std::make_shared<LeastWaits>();
    least->in_step_ms.assign(wait_ms.steps(), infinity);
    least->in_next_ms.assign(wait_ms.steps(), infinity);
    const auto is_slow = [this](std::size_t rank, std::size_t step) {
        return !slow_[rank].empty() && slow_[rank][step];
    };
    for (const std::size_t rank : group.ranks)
        for (std::size_t step = 0; step < wait_ms.steps(); ++step) {
            if (is_slow(rank, step)) continue;
            double& in_step_ms = least->in_step_ms[step];
            in_step_ms = std::min(in_step_ms, wait_ms.at(rank, step));
            if (step == 0 || is_slow(rank, step - 1) || !is_next_recorded(steps_, step - 1)) continue;
            double& in_next_ms = least->in_next_ms[step - 1];
            in_next_ms = std::min(in_next_ms, wait_ms.at(rank, step));
        }
    for (const std::size_t rank : group.ranks) least_waits_[rank] = least;
}

double WhatIf::saved_by_ms(std::size_t rank, std::size_t step, double less_ms) const {
    const double excess_ms = own_ms_.at(rank, step) - less_ms - slowest_other_ms_[step];
    if (!(excess_ms > 0)) return 0;
    if (least_waits_.empty()) return excess_ms;
    const LeastWaits& least = *least_waits_[rank];
    const bool ends_it = step + 1 < slow_[rank].size() && !slow_[rank][step + 1] && !std::isinf(least.in_next_ms[step]);
    return std::min(excess_ms, std::max(least.in_step_ms[step], ends_it ? least.in_next_ms[step] : 0));
}

double WhatIf::saved_ms(std::size_t step) const {
    double most_ms = 0;
    for (const std::size_t rank : slow_ranks_)
        if (slow_[rank][step]) most_ms = std::max(most_ms, saved_by_ms(rank, step));
    return most_ms;
}

}  // namespace cep::tool
