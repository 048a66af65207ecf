// SPDX-License-Identifier: Apache-2.0
#include "summary/summary.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/failure.hpp"
#include "base/text.hpp"
#include "ledger/ledger.hpp"
#include "stats/robust.hpp"
#include "summary/phase_table.hpp"

namespace cep::tool {
namespace {

using By = Grouping::By;

constexpr std::string_view step_prefix = "step:";
constexpr std::pair<std::string_view, By> groupings[] = {{"phase", By::phase}, {"rank", By::rank}, {"host", By::host}};

// Where a few phases were asked for, only step spans among them make a whole to be a share of.
void drop_baseless_shares(Summary& summary) {
    for (const PhaseSummary& phase : summary.phases)
        if (phase.kind == schema::Kind::step) return;
    for (PhaseSummary& phase : summary.phases) phase.share.reset();
    for (GroupSummary& group : summary.groups) group.phase.share.reset();
}

std::optional<OwnCost> find_own_cost(const Job& job) {
    const StepPhase step = find_step_phase(all_series(job.ranks));
    if (!step.found || job.filter.has_steps()) return std::nullopt;
    std::vector<double> shares;
    OwnCost cost;
    for (const auto& [rank, series] : job.ranks) {
        double own_ms = 0;
        for (const RunSeries& run : series)
            if (run.has_stats) own_ms += run.stats.trainer_ms;
        if (own_ms <= 0) continue;
        double steps_ms = 0;
        for (const RunSeries& run : series)
            for (const PhaseSeries& phase : run.phases)
                if (phase.name == step.name) steps_ms += totals_of(phase).sum_ms;
        if (steps_ms <= 0) continue;
        shares.push_back(own_ms / steps_ms);
        if (shares.back() <= cost.largest_share) continue;
        cost.largest_share = shares.back();
        cost.largest_rank = rank;
    }
    if (shares.empty()) return std::nullopt;
    cost.median_share = median_of(shares);
    return cost;
}

/// One for each attempt, whose rows may be in several files.
std::vector<StrideChange> changes_of(const std::vector<RunSeries>& all_series) {
    std::map<std::pair<std::string_view, std::int64_t>, StrideChange> changes;
    for (const RunSeries& series : all_series) {
        if (!series.stride) continue;
        const auto [found, is_new] = changes.try_emplace({series.run.run_id, series.run.attempt}, *series.stride);
        if (!is_new) found->second.add(*series.stride);
    }
    std::vector<StrideChange> all;
    for (const auto& [run, change] : changes) all.push_back(change);
    return all;
}

std::vector<StrideChangeGroup> find_stride_changes(const Job& job) {
    std::map<std::tuple<std::int64_t, std::int64_t, double>, StrideChangeGroup> groups;
    for (const auto& [rank, all_series] : job.ranks)
        for (const StrideChange& change : changes_of(all_series)) {
            if (change.from == change.to) continue;
            const std::tuple strides(change.from, change.to, change.max_percent);
            const StrideChangeGroup none{change.from, change.to, change.max_percent, {}, {}};
            StrideChangeGroup& group = groups.try_emplace(strides, none).first->second;
            group.steps.insert(change.step);
            group.ranks.insert(rank);
        }
    std::vector<StrideChangeGroup> found;
    for (auto& [strides, group] : groups) found.push_back(std::move(group));
    return found;
}

/// The rank that the verdict names first in a phase, as an index into the ledger.
std::optional<std::size_t> find_named(const Verdict& verdict, const std::string& phase) {
    const std::vector<RankLedger>& ranks = verdict.ledger.ranks;
    for (const Finding* const straggler : verdict.stragglers())
        for (std::size_t i = 0; straggler->phase == phase && i < ranks.size(); ++i)
            if (ranks[i].rank == straggler->typical_rank) return i;
    return std::nullopt;
}

// The share is of what nothing hides; of spans that enclose others, of all of them. The slowest rank is the one with
// the most work of its own, unless the verdict names another.
void take_from(const Verdict& verdict, PhaseSummary& phase) {
    const Ledger& ledger = verdict.ledger;
    const PhaseLedger* const found = ledger.find(phase.name);
    if (found == nullptr) return;
    phase.share = ledger.share(*found);
    std::vector<double> own_ms;
    for (const double ms : found->own_ms)
        if (!is_missing(ms)) own_ms.push_back(ms);
    if (own_ms.empty()) return;
    std::size_t slowest = 0;
    for (std::size_t i = 0; i < found->own_ms.size(); ++i)
        if (!(found->own_ms[i] <= found->own_ms[slowest]) && !is_missing(found->own_ms[i])) slowest = i;
    if (const auto named = find_named(verdict, phase.name); named && !is_missing(found->own_ms[*named]))
        slowest = *named;
    phase.slowest_rank = ledger.ranks[slowest].rank;
    const double typical_ms = median_of(own_ms);
    if (typical_ms > 0) phase.skew = found->own_ms[slowest] / typical_ms;
}

}  // namespace

Grouping Grouping::parse(std::string_view text) {
    for (const auto& [name, grouped_by] : groupings)
        if (text == name) return {grouped_by, 1};
    if (text.starts_with(step_prefix)) {
        const auto steps = parse_number<std::int64_t>(text.substr(step_prefix.size()));
        if (steps && *steps > 0) return {By::step, *steps};
    }
    throw UsageError("--by: '" + std::string(text) +
                     "' is not one of phase, rank, host and step:N (N steps, at least 1)");
}

std::string Grouping::name() const {
    for (const auto& [name, grouped_by] : groupings)
        if (by == grouped_by) return std::string(name);
    return std::string(step_prefix) + std::to_string(window_steps);
}

std::vector<std::string> find_oom_snapshots(const InputSet& inputs) {
    std::vector<std::string> found;
    for (const InputFile& file : inputs.files) {
        if (!file.name_rank) continue;
        const std::string directory = file.path.substr(0, file.path.rfind('/') + 1);
        std::string path = fmt::format("{}cuda_memory_rank_{}.pickle", directory, *file.name_rank);
        if (::access(path.c_str(), F_OK) == 0) found.push_back(std::move(path));
    }
    return found;
}

Summary summarize(const Job& job, const Grouping& grouping, std::size_t threads, const Verdict* verdict) {
    Summary summary;
    std::vector<SpansOfPhase> spans;
    for (const SeriesOfRank& of : all_series(job.ranks)) add_spans(of, spans);
    summary.phases = summarize_phases(spans, threads);
    if (verdict != nullptr && !verdict->ledger.empty())
        for (PhaseSummary& phase : summary.phases) take_from(*verdict, phase);
    summary.counters = summarize_counters(job.ranks);
    summary.memory = summarize_memory(job.ranks);
    summary.own_cost = find_own_cost(job);
    summary.stride_changes = find_stride_changes(job);
    summary.grouping = grouping;
    summary.groups = summarize_groups(job, grouping, threads, verdict != nullptr ? &verdict->ledger : nullptr);
    if (job.filter.has_phases()) drop_baseless_shares(summary);
    return summary;
}

}  // namespace cep::tool
