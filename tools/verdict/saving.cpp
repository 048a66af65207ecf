// SPDX-License-Identifier: Apache-2.0
#include "verdict/judged_job.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ledger/table_quantiles.hpp"
#include "verdict/causes.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {
namespace {

constexpr double most_saving = 0.99;  // that is said: a step takes some time

// If a replay is far from what was observed, ranks wait for others than it matches; if many rows were lost, waiting and
// work were lost. Then nobody knows what that costs.
void drop_waits(const JobTable& table, Verdict& verdict) {
    const Replay& replay = verdict.replay;
    const bool is_far = std::abs(replay.error) > Replay::most_error_at_all;
    if (!is_far && !(replay.is_possible && replay.row_coverage < Replay::least_coverage)) return;
    for (Finding& one : verdict.findings) {
        if (!is_of_slow_ranks(one)) continue;
        one.cost_share = one.all_excess_ms * one.step_fraction / typical_ms(table.median_step_ms);
        one.is_costly = one.keeps_waiting && *one.cost_share > Replay::least_cost;
        one.cost_share.reset();
    }
}

/// What these ranks cost, by step: of those that are slow in the same one, the one that costs most.
template <typename Use>
std::vector<double> costs_ms(const JobTable& table, const Verdict& verdict, Use use) {
    const double all_ms = sum_ms(table.median_step_ms);
    std::vector<double> costs_ms(table.steps.size());
    for (const Finding& one : verdict.findings) {
        if (!is_of_slow_ranks(one) || !use(one)) continue;
        const auto slow = static_cast<double>(std::count(one.slow.begin(), one.slow.end(), true));
        const double cost_ms = one.cost_share ? *one.cost_share * all_ms / slow : one.excess_ms;
        for (std::size_t step = 0; step < costs_ms.size(); ++step)
            if (one.slow[step]) costs_ms[step] = std::max(costs_ms[step], cost_ms);
    }
    return costs_ms;
}

/// `saved_ms`: in a mean step of steady training.
void set_saving_ms(const JudgedJob& judged, double saved_ms, Verdict& verdict) {
    constexpr double ms_per_hour = 3.6e6;
    const JobTable& table = judged.table;
    const double thinned = static_cast<double>(table.all_steps) / static_cast<double>(table.steps.size());
    const double step_ms = verdict.mean_step_ms.value_or(verdict.replay.observed_ms);
    verdict.job_slowdown = step_ms / (step_ms - saved_ms);
    verdict.gpu_hours_lost = saved_ms * static_cast<double>(count_values(table.median_step_ms)) * thinned *
                             static_cast<double>(judged.job.steps.stride.value_or(1)) *
                             static_cast<double>(judged.job.coverage.ranks_expected.value_or(table.ranks.size())) /
                             ms_per_hour;
}

void set_share(const JudgedJob& judged, double share, Verdict& verdict) {
    set_saving_ms(judged, verdict.saved_ms(share), verdict);
    verdict.saving_precision = verdict.replay.holds() ? Precision::exact : Precision::about;
    verdict.saving_is_waiting = false;
}

// Without starts nobody knows what ran beside what, nor what stages and experts do not wait for: a job
// took at least as long as the rank that worked longest.
void set_bound(const JudgedJob& judged, Verdict& verdict) {
    const auto is_unknown = [](const Finding& one) {
        return is_of_slow_ranks(one) && one.is_costly && !one.cost_share;
    };
    if (std::any_of(verdict.findings.begin(), verdict.findings.end(), is_unknown)) return;
    const bool is_timed = verdict.ledger.is_timed;
    const bool is_conserved =
        judged.operations.contains(Operation::send_recv) || judged.operations.contains(Operation::all_to_all);
    if (!is_timed && is_conserved) return;
    double step_ms = *verdict.mean_step_ms;
    if (!is_timed) {
        double longest_ms = 0;
        for (std::size_t rank = 0; rank < judged.own_ms.ranks(); ++rank)
            longest_ms = std::max(longest_ms, sum_ms(quantiles_over_ranks(judged.own_ms, std::span(&rank, 1), 0.5)));
        step_ms = std::min(step_ms, longest_ms / static_cast<double>(judged.table.steps.size()));
    }
    const double lost_ms = sum_ms(costs_ms(judged.table, verdict, [](const Finding& one) { return one.is_costly; }));
    const double saved_ms = lost_ms / static_cast<double>(count_values(judged.table.median_step_ms));
    set_saving_ms(judged, std::min(saved_ms, most_saving * step_ms) * *verdict.mean_step_ms / step_ms, verdict);
    verdict.saving_precision = is_timed ? Precision::about : Precision::at_most;
    if (!is_timed) verdict.mean_step_ms.reset();
}

// Where devices are idle for late hosts for longer than would be saved, hosts may take back some of that. A rank that
// is not slow saves at most what it waits, and so does the job.
void bound_where_hosts_are_late(const JudgedJob& judged, Verdict& verdict) {
    const bool is_told =
        verdict.saving_precision != Precision::about || (verdict.replay.has_stops && verdict.replay.holds());
    if (is_told || !verdict.shares || !verdict.job_slowdown) return;
    const double saved_share = 1 - 1 / *verdict.job_slowdown;
    if (verdict.shares->host <= saved_share) return;
    double most_share = 0;
    for (const Finding& one : verdict.findings)
        if (is_of_slow_ranks(one) && one.is_costly) most_share = std::max(most_share, one.least_wait_share);
    if (most_share <= saved_share) return;
    set_saving_ms(judged, std::min(most_share, most_saving) * *verdict.mean_step_ms, verdict);
    verdict.saving_precision = Precision::at_most;
    verdict.saving_is_waiting = true;
}

}  // namespace

void set_saving(const JudgedJob& judged, Verdict& verdict) {
    const bool is_usable = verdict.replay.is_usable();
    if (!is_usable && judged.table.has_comm) drop_waits(judged.table, verdict);
    // What nobody knows the cost of comes last, by what it exceeds its peers by.
    const auto cost_of = [](const Finding& one) {
        return std::pair(one.cost_share.value_or(-1), one.all_excess_ms * one.step_fraction);
    };
    std::stable_sort(verdict.findings.begin(), verdict.findings.end(),
                     [&](const Finding& a, const Finding& b) { return cost_of(a) > cost_of(b); });
    if (!judged.table.has_comm) return;
    verdict.mean_step_ms = verdict.ledger.steady.step_ms;
    verdict.has_devices = std::any_of(judged.table.ranks.begin(), judged.table.ranks.end(),
                                      [](const RankRole& one) { return !one.device_name.empty(); });
    if (!verdict.names_ranks()) return set_saving_ms(judged, 0, verdict);
    const bool is_approximate = std::any_of(verdict.findings.begin(), verdict.findings.end(),
                                            [](const Finding& one) { return one.is_approximate; });
    if (!is_usable || is_approximate) {
        set_bound(judged, verdict);
    } else {
        set_share(judged, verdict.replay.saving, verdict);
        if (verdict.replay.holds() && verdict.replay.peers_may_be_rested) verdict.saving_precision = Precision::at_most;
        if (verdict.replay.holds() && (is_up_to_hosts(verdict) || verdict.replay.has_stops))
            verdict.saving_precision = Precision::about;
    }
    bound_where_hosts_are_late(judged, verdict);
}

void settle(const JudgedJob& judged, Verdict& verdict) {
    const Finding* const cause = top_cause(verdict);
    if (cause == nullptr) return;
    const bool settles = cause->kind != FindingKind::special && verdict.replay.steps >= StragglerRules::least_steps;
    if (verdict.abstained && !settles) return;
    const bool is_of_ranks = cause->kind == FindingKind::ranks || cause->kind == FindingKind::host;
    if (!is_of_ranks || !verdict.names_ranks()) set_share(judged, cause->cost_share.value_or(0), verdict);
    if (cause->is_approximate) verdict.saving_precision = Precision::about;
    verdict.abstained = false;
    verdict.reason.clear();
    verdict.to_do.clear();
    std::erase_if(verdict.findings, [](const Finding& one) { return one.kind == FindingKind::late; });
}

bool is_up_to_hosts(const Verdict& verdict) {
    return std::any_of(verdict.findings.begin(), verdict.findings.end(),
                       [](const Finding& one) { return one.is_up_to_hosts && one.is_costly; });
}

std::vector<double> explained_ms(const JudgedJob& judged, const Verdict& verdict) {
    const std::vector<std::int64_t>& steps = judged.table.steps;
    std::vector<double> all_ms = costs_ms(judged.table, verdict, [](const Finding& one) { return one.keeps_waiting; });
    for (const auto& [step, ms] : verdict.replay.costs_ms)
        if (const auto found = std::lower_bound(steps.begin(), steps.end(), step);
            found != steps.end() && *found == step)
            all_ms[static_cast<std::size_t>(found - steps.begin())] = ms;
    return all_ms;
}

}  // namespace cep::tool
