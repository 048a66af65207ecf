// SPDX-License-Identifier: Apache-2.0
#include "own_work.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "robust.hpp"

namespace cep::analysis {

StepMatrix own_work(const JobTable& table, const std::vector<PeerGroup>& groups) {
    StepMatrix own_ms(table.ranks.size(), table.steps.size());
    for (const PeerGroup& group : groups)
        for (const LocalPhase& phase : table.local)
            for (std::size_t step = 0; step < table.steps.size(); ++step) {
                const bool any_missing = std::any_of(group.ranks.begin(), group.ranks.end(), [&](std::size_t rank) {
                    return is_missing(phase.own_ms.at(rank, step));
                });
                const double usual_ms = any_missing ? median_of(phase.own_ms.of_step(step, group.ranks)) : 0;
                if (is_missing(usual_ms)) continue;
                for (const std::size_t rank : group.ranks) {
                    const double ms = phase.own_ms.at(rank, step);
                    own_ms.add(rank, step, is_missing(ms) ? usual_ms : ms);
                }
            }
    return own_ms;
}

WhatIf::WhatIf(const JobTable& table, const StepMatrix& own_ms, const std::vector<PeerGroup>& groups, SlowSteps slow,
               bool waits_inside)
    : table_(table), own_ms_(own_ms), slow_(std::move(slow)), peers_(table.ranks.size()), is_bounded_(waits_inside) {
    for (const PeerGroup& group : groups) {
        for (const std::size_t rank : group.ranks) peers_[rank] = &group;
        is_bounded_ |= group.pp != groups.front().pp;
    }
    for (std::size_t step = 0; step < table.steps.size(); ++step) {
        double slowest_ms = std::numeric_limits<double>::quiet_NaN();
        for (std::size_t rank = 0; rank < slow_.size(); ++rank)
            if (const double ms = own_ms.at(rank, step); !is_slow(rank, step) && !(ms <= slowest_ms) && !is_missing(ms))
                slowest_ms = ms;
        slowest_other_ms_.push_back(slowest_ms);
    }
}

bool WhatIf::is_slow(std::size_t rank, std::size_t step) const {
    return !slow_[rank].empty() && slow_[rank][step];
}

double WhatIf::least_wait_ms(std::size_t rank, std::size_t step) const {
    double least_ms = std::numeric_limits<double>::infinity();
    for (const std::size_t peer : peers_[rank]->ranks)
        if (const double ms = table_.group_wait_ms.at(peer, step); !is_slow(peer, step) && ms < least_ms) least_ms = ms;
    return least_ms;
}

double WhatIf::saved_by_ms(std::size_t rank, std::size_t step) const {
    const double excess_ms = own_ms_.at(rank, step) - slowest_other_ms_[step];
    if (!(excess_ms > 0)) return 0;
    return is_bounded_ ? std::min(excess_ms, least_wait_ms(rank, step)) : excess_ms;
}

double WhatIf::saved_ms(std::size_t step) const {
    double most_ms = 0;
    for (std::size_t rank = 0; rank < slow_.size(); ++rank)
        if (is_slow(rank, step)) most_ms = std::max(most_ms, saved_by_ms(rank, step));
    return most_ms;
}

}  // namespace cep::analysis
