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
            table.wait_ms.set(rank, step, std::numeric_limits<double>::quiet_NaN());
}

bool is_next_recorded(const std::vector<std::int64_t>& steps, std::size_t step) {
    return step + 1 < steps.size() && steps[step + 1] == steps[step] + 1;
}

}  // namespace cep::tool
