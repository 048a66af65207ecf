// SPDX-License-Identifier: Apache-2.0
#include "verdict/own_work.hpp"

#include <algorithm>
#include <cmath>

#include "ledger/table_quantiles.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double chance_errors = 3;     // standard errors by which numbers of lost rows differ
constexpr std::size_t least_could = 8;  // rows that a rank could have: of fewer, all may be lost

std::vector<std::size_t> count_steps(const StepMatrix& ms) {
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < ms.ranks(); ++rank) counts.push_back(count_values(ms.of_rank(rank)));
    return counts;
}

void keep_larger(std::vector<std::size_t>& most, const std::vector<std::size_t>& counts) {
    for (std::size_t rank = 0; rank < most.size(); ++rank) most[rank] = std::max(most[rank], counts[rank]);
}

/// A rank whose row was lost works as its peers do in the step.
void add_phase(const RolePhase& phase, const PeerGroup& role, const std::vector<std::size_t>& rows,
               StepMatrix& own_ms) {
    const bool any_missing =
        std::any_of(rows.begin(), rows.end(), [&](std::size_t count) { return count < own_ms.steps(); });
    std::vector<double> usual_ms;
    if (any_missing) usual_ms = quantiles_over_ranks(phase.own_ms, 0.5);
    for (std::size_t peer = 0; peer < role.ranks.size(); ++peer)
        for (std::size_t step = 0; step < own_ms.steps(); ++step) {
            double ms = phase.own_ms.at(peer, step);
            if (is_missing(ms) && rows[peer] > 0) ms = usual_ms[step];
            if (!is_missing(ms)) own_ms.add_to_cell(role.ranks[peer] * own_ms.steps() + step, ms);
        }
}

}  // namespace

StepMatrix rows_of_role(const StepMatrix& ms, const PeerGroup& role) {
    StepMatrix of_role(role.ranks.size(), ms.steps());
    for (std::size_t peer = 0; peer < role.ranks.size(); ++peer) {
        const std::span<const float> of_rank = ms.of_rank(role.ranks[peer]);
        std::copy(of_rank.begin(), of_rank.end(), of_role.of_rank(peer).begin());
    }
    return of_role;
}

AbsentRows::AbsentRows(const JobTable& table)
    : table_(table),
      most_rows_(table.ranks.size()),
      most_rows_of_device_(table.ranks.size()),
      steps_(count_steps(table.step_ms)) {
    for (const LocalPhase& phase : table.local) {
        rows_.push_back(count_steps(phase.own_ms));
        keep_larger(most_rows_, rows_.back());
        if (phase.kind == schema::Kind::compute) keep_larger(most_rows_of_device_, rows_.back());
    }
}

// A rank may have lost all that its device did.
const AbsentRows::StepCounts& AbsentRows::most_rows_of_kind(std::size_t phase) const {
    return table_.local[phase].kind == schema::Kind::compute ? most_rows_of_device_ : most_rows_;
}

// The rank has as many rows of it as of any phase, as far as chance tells.
bool AbsentRows::are_lost(std::size_t phase, std::size_t rank) const {
    const auto rows = static_cast<double>(rows_[phase][rank]);
    const double share = rows / static_cast<double>(std::max<std::size_t>(1, steps_[rank]));
    const double error = std::sqrt(rows * std::max(0.0, 1 - share));
    return rows > 0 && rows + chance_errors * error >= static_cast<double>(most_rows_[rank]);
}

// Whether a phase is one of all ranks is a question to all of them: with an answer for each, ranks that do it in half
// of their steps would be told apart by chance.
RolePhase AbsentRows::find(std::size_t phase, const PeerGroup& role) const {
    RolePhase found{rows_of_role(table_.local[phase].own_ms, role)};
    const StepCounts& most_rows = most_rows_of_kind(phase);
    const std::vector<std::size_t> ranks_of_step = count_ranks(found.own_ms);
    const auto without =
        static_cast<std::size_t>(std::count(ranks_of_step.begin(), ranks_of_step.end(), std::size_t{0}));
    const std::size_t steps_with = ranks_of_step.size() - without;
    if (steps_with == 0) return found;
    std::size_t rows = 0;
    std::size_t could = 0;
    for (const std::size_t rank : role.ranks) {
        rows += rows_[phase][rank];
        could += std::min(steps_with, most_rows[rank]);
    }
    const bool is_of_all = 2 * rows > could;
    for (std::size_t peer = 0; peer < role.ranks.size(); ++peer) {
        const std::size_t rank = role.ranks[peer];
        const bool has_any = rows_[phase][rank] > 0;
        found.ranks += has_any;
        if (has_any && (is_of_all || are_lost(phase, rank))) continue;
        if (std::min(steps_with, most_rows[rank]) < std::min(least_could, steps_with)) continue;
        found.is_of_some = true;
        for (std::size_t step = 0; step < ranks_of_step.size(); ++step) {
            const bool is_lost = has_any && 2 * ranks_of_step[step] > role.ranks.size();
            const bool is_known =
                !is_missing(table_.step_ms.at(rank, step)) && !(is_of_all && ranks_of_step[step] == 0);
            if (is_known && !is_lost && is_missing(found.own_ms.at(peer, step))) found.own_ms.set(peer, step, 0);
        }
    }
    return found;
}

StepMatrix own_work(const JobTable& table, const AbsentRows& absent, const std::vector<PeerGroup>& groups) {
    StepMatrix own_ms(table.ranks.size(), table.steps.size());
    for (const PeerGroup& group : groups)
        for (std::size_t i = 0; i < table.local.size(); ++i) {
            std::vector<std::size_t> rows;
            for (const std::size_t rank : group.ranks) rows.push_back(absent.rows_of(i, rank));
            add_phase(absent.find(i, group), group, rows, own_ms);
        }
    return own_ms;
}

void forget_waits(const std::function<bool(std::int64_t step)>& is_of_them, JobTable& table) {
    for (std::size_t step = 0; step < table.steps.size(); ++step) {
        if (!is_of_them(table.steps[step])) continue;
        for (std::size_t rank = 0; rank < table.ranks.size(); ++rank)
            for (StepMatrix* waits : {&table.wait_ms, &table.avoidable_ms}) waits->set(rank, step, NAN);
    }
}

}  // namespace cep::tool
