// SPDX-License-Identifier: Apache-2.0
#include "verdict/efficiency.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <utility>

namespace cep::tool {
namespace {

constexpr double clearly_more = 1.5;  // times the second
constexpr double bound_share = 0.3;   // of the time, at least

std::size_t count_stages(const JobTable& table) {
    std::set<std::int64_t> stages;
    for (const RankRole& rank : table.ranks)
        if (rank.pp) stages.insert(*rank.pp);
    return stages.size();
}

void find_bubble(const JobTable& table, const std::optional<StepShares>& shares, std::size_t pipeline_length,
                 Efficiency& efficiency) {
    const auto stages = static_cast<double>(std::max(count_stages(table), pipeline_length));
    if (shares && (stages > 1 || shares->bubble > 0)) efficiency.bubble_fraction = shares->bubble;
    double micro_batches = 0;
    for (const LocalPhase& phase : table.local)
        if (phase.kind == schema::Kind::compute) micro_batches = std::max(micro_batches, phase.usual_spans);
    if (stages > 1 && micro_batches > 0)
        efficiency.theoretical_bubble_fraction = (stages - 1) / (micro_batches + stages - 1);
}

}  // namespace

std::optional<StepShares> find_shares(const Ledger& ledger) {
    const auto ns = [&](std::initializer_list<TimeKind> pieces) {
        std::int64_t sum = 0;
        for (const TimeKind piece : pieces) sum += ledger.pieces[piece];
        return static_cast<double>(sum);
    };
    const double all =
        static_cast<double>(ledger.elapsed_ns) - ns({TimeKind::startup, TimeKind::restart, TimeKind::redone});
    if (all <= 0) return std::nullopt;
    StepShares shares;
    shares.compute = ns({TimeKind::compute}) / all;
    shares.bubble = ns({TimeKind::bubble}) / all;
    shares.wait = ns({TimeKind::waiting}) / all + shares.bubble;
    shares.comm = shares.wait + ns({TimeKind::transfer}) / all;
    shares.data = ns({TimeKind::data, TimeKind::host_to_device, TimeKind::memory}) / all;
    shares.host = ns({TimeKind::host_late}) / all;
    shares.host_phases = ns({TimeKind::host, TimeKind::checkpoint, TimeKind::evaluation, TimeKind::logging}) / all;
    shares.rest = std::max(0.0, 1 - shares.compute - shares.comm - shares.data - shares.host);
    return shares;
}

std::string_view bound_name(Bound bound) {
    constexpr std::array<std::string_view, 6> names = {"unknown", "compute", "comm", "data", "host", "mixed"};
    return names[static_cast<std::size_t>(bound)];
}

Bound bound_of(const StepShares& shares) {
    std::array<std::pair<double, Bound>, 5> candidates = {{{shares.rest - shares.host_phases, Bound::unknown},
                                                           {shares.compute, Bound::compute},
                                                           {shares.comm, Bound::comm},
                                                           {shares.data, Bound::data},
                                                           {shares.host + shares.host_phases, Bound::host}}};
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const auto& [share, bound] = candidates.front();
    if (shares.hides_comm && bound == Bound::compute) return Bound::unknown;
    return share >= bound_share && share >= clearly_more * candidates[1].first ? bound : Bound::mixed;
}

Efficiency find_efficiency(const JobTable& table, const Ledger& ledger, const std::optional<StepShares>& shares,
                           std::size_t pipeline_length) {
    Efficiency efficiency;
    if (table.ranks.empty() || ledger.empty()) return efficiency;
    efficiency.mfu = ledger.run.mfu;
    efficiency.hfu = ledger.run.hfu;
    efficiency.tokens_per_s = ledger.run.tokens_per_s;
    double recorded = 0;
    for (const RankLedger& rank : ledger.ranks) recorded += static_cast<double>(rank.recorded);
    if (table.has_comm && recorded > 0 && ledger.comm_ms > 0) {
        efficiency.comm_ms = ledger.comm_ms / recorded;
        efficiency.exposed_comm_ms = (ledger.comm_ms - ledger.hidden_comm_ms) / recorded;
        efficiency.overlap_efficiency = ledger.hidden_comm_ms / ledger.comm_ms;
        const double compute_ms = ledger.run.steps > 0 ? ledger.mean_ms(TimeKind::compute) / ledger.run.steps : 0;
        if (compute_ms > 0)
            efficiency.overlap_of_possible =
                std::min(1.0, ledger.hidden_comm_ms / recorded / std::min(compute_ms, *efficiency.comm_ms));
    }
    find_bubble(table, shares, pipeline_length, efficiency);
    return efficiency;
}

}  // namespace cep::tool
