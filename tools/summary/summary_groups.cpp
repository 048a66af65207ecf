// SPDX-License-Identifier: Apache-2.0
//
// The phase table of each rank, host or window of steps by itself.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/failure.hpp"
#include "base/parallel.hpp"
#include "stats/quantiles.hpp"
#include "stats/robust.hpp"
#include "summary/phase_table.hpp"

namespace cep::tool {
namespace {

using By = Grouping::By;

/// A rank, a host or a window of steps, and its spans.
struct Group {
    std::int64_t first = 0;  // the rank, or the first step of the window
    std::string host;
    std::vector<SpansOfPhase> spans;  // rank by rank
};

// The first step of the window: the multiple of its length at or below the step.
std::int64_t window_of(std::int64_t step, std::int64_t window_steps) {
    std::int64_t over = step % window_steps;
    if (over < 0) over += window_steps;
    constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    return step < lowest + over ? lowest : step - over;
}

std::int64_t end_of_window(std::int64_t first, std::int64_t window_steps) {
    constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
    return first > highest - (window_steps - 1) ? highest : first + (window_steps - 1);
}

std::vector<Group> group_by_rank(const RankSeries& ranks) {
    std::vector<Group> groups;
    for (const auto& [rank, all_series] : ranks) {
        Group& group = groups.emplace_back();
        group.first = rank;
        for (const RunSeries& series : all_series) {
            if (!series.run.host.empty()) group.host = series.run.host;
            add_spans({rank, &series}, group.spans);
        }
    }
    return groups;
}

std::vector<Group> group_by_host(const RankSeries& ranks) {
    std::map<std::string_view, std::vector<SpansOfPhase>> hosts;
    for (const SeriesOfRank& of : all_series(ranks)) add_spans(of, hosts[of.series->run.host]);
    std::vector<Group> groups;
    for (auto& [host, spans] : hosts) groups.push_back({0, std::string(host), std::move(spans)});
    return groups;
}

void add_groups(const std::vector<Group>& groups, const Grouping& grouping, std::size_t threads,
                std::vector<GroupSummary>& result) {
    std::vector<std::vector<PhaseSummary>> phases(groups.size());
    for_all(phases.size(), threads, [&](std::size_t i) { phases[i] = summarize_phases(groups[i].spans, 1); });
    for (std::size_t i = 0; i < phases.size(); ++i)
        for (PhaseSummary& phase : phases[i]) {
            GroupSummary& summary = result.emplace_back();
            summary.first = groups[i].first;
            summary.last = end_of_window(groups[i].first, grouping.window_steps);
            summary.host = groups[i].host;
            summary.phase = std::move(phase);
        }
}

/// Takes the spans of steps up to `last_step` off those that are left, which begin with one of them.
SpansOfPhase take_spans(SpansOfPhase& left, std::int64_t last_step) {
    SpansOfPhase taken = left;
    const SampleList& samples = left.phase->samples;
    while (left.first < left.last && left.series->steps[samples[left.first].step_index] <= last_step) ++left.first;
    taken.last = left.first;
    return taken;
}

/// Window by window, a few at a time: each has pieces of all phases of all ranks with spans in it.
void add_windows(const Job& job, const Grouping& grouping, std::size_t threads, std::vector<GroupSummary>& result) {
    constexpr std::size_t pieces_at_a_time = std::size_t{1} << 16;
    std::vector<SpansOfPhase> left;
    for (const SeriesOfRank& of : all_series(job.ranks)) add_spans(of, left);
    using NextWindow = std::pair<std::int64_t, std::size_t>;  // its first step, index of what is left
    std::priority_queue<NextWindow, std::vector<NextWindow>, std::greater<>> next;
    const auto push = [&](std::size_t i) {
        const SpansOfPhase& of = left[i];
        if (of.first == of.last) return;
        const std::int64_t step = of.series->steps[of.phase->samples[of.first].step_index];
        next.emplace(window_of(step, grouping.window_steps), i);
    };
    for (std::size_t i = 0; i < left.size(); ++i) push(i);
    std::vector<Group> windows;
    std::size_t pieces = 0;
    while (!next.empty()) {
        const auto [first, i] = next.top();
        next.pop();
        if (windows.empty() || windows.back().first != first) {
            if (pieces >= pieces_at_a_time) {
                add_groups(windows, grouping, threads, result);
                windows.clear();
                pieces = 0;
            }
            windows.push_back({first, {}, {}});
        }
        windows.back().spans.push_back(take_spans(left[i], end_of_window(first, grouping.window_steps)));
        ++pieces;
        push(i);
    }
    add_groups(windows, grouping, threads, result);
}

/// What a group is compared by: of a rank, what it does itself in a step, where that is known.
double compared_ms(const GroupSummary& group, By by, const Ledger* ledger) {
    const PhaseLedger* const phase = by == By::rank && ledger != nullptr ? ledger->find(group.phase.name) : nullptr;
    if (phase == nullptr || phase->own_ms.empty()) return group.phase.mean_ms;
    const RankLedger* const rank = ledger->find_rank(group.first);
    if (rank == nullptr) return group.phase.mean_ms;
    const double own_ms = phase->own_ms[static_cast<std::size_t>(rank - ledger->ranks.data())];
    return is_missing(own_ms) ? group.phase.mean_ms : own_ms;
}

/// The ranks of a group in the ledger.
std::vector<const RankLedger*> ranks_of(const Group& group, const Ledger& ledger) {
    std::vector<const RankLedger*> ranks;
    for_each_rank(std::span(group.spans), [&](std::span<const SpansOfPhase> of_rank) {
        if (const RankLedger* const rank = ledger.find_rank(of_rank.front().rank)) ranks.push_back(rank);
    });
    return ranks;
}

/// For phases of ranks and hosts. What is seen of a phase in a window of steps is not kept apart.
void add_shares(const std::vector<Group>& groups, const Ledger& ledger, std::vector<GroupSummary>& summaries) {
    auto summary = summaries.begin();
    for (const Group& group : groups) {
        Ledger::Sums sums;
        std::unordered_map<const PhaseLedger*, double> visible_ms;
        for (const RankLedger* const rank : ranks_of(group, ledger)) {
            sums.recorded_ms += rank->recorded_ms;
            sums.step_span_ms += rank->step_span_ms;
            for (const auto& [phase, ms] : rank->visible) visible_ms[&ledger.phases[phase]] += ms;
        }
        for (; summary != summaries.end() && summary->first == group.first && summary->host == group.host; ++summary) {
            const PhaseLedger* const phase = ledger.find(summary->phase.name);
            if (phase == nullptr || sums.recorded_ms <= 0) continue;
            sums.visible_ms = visible_ms[phase];
            summary->phase.share = Ledger::share(*phase, sums);
        }
    }
}

// Against the other groups: the same phase, a group as good as another whatever its number of spans.
void compare_groups(std::vector<GroupSummary>& groups, By by, const Ledger* ledger) {
    struct Values {
        std::vector<double> means_ms;
        std::vector<double> medians_ms;
    };
    std::map<std::string_view, Values> of_phases;
    for (const GroupSummary& group : groups) {
        of_phases[group.phase.name].means_ms.push_back(compared_ms(group, by, ledger));
        if (!is_missing(group.phase.p50_ms)) of_phases[group.phase.name].medians_ms.push_back(group.phase.p50_ms);
    }
    std::map<std::string_view, std::pair<double, double>> typical_ms;  // mean, median
    for (auto& [name, values] : of_phases)
        typical_ms[name] = {quantile_of(values.means_ms, 0.5), quantile_of(values.medians_ms, 0.5)};
    for (GroupSummary& group : groups) {
        const auto [mean_ms, median_ms] = typical_ms[group.phase.name];
        group.excess_ms = compared_ms(group, by, ledger) - mean_ms;
        if (median_ms > 0 && !is_missing(group.phase.p50_ms)) group.median_ratio = group.phase.p50_ms / median_ms;
    }
}

}  // namespace

std::vector<GroupSummary> summarize_groups(const Job& job, const Grouping& grouping, std::size_t threads,
                                           const Ledger* ledger) {
    std::vector<GroupSummary> result;
    if (grouping.by == By::step) {
        if (!job.choice.keeps_all())
            throw UsageError("--by " + grouping.name() +
                             " needs every duration, and there are more than --max-samples");
        add_windows(job, grouping, threads, result);
    } else if (grouping.by != By::phase) {
        const std::vector<Group> groups = grouping.by == By::rank ? group_by_rank(job.ranks) : group_by_host(job.ranks);
        add_groups(groups, grouping, threads, result);
        if (ledger != nullptr && !ledger->empty()) add_shares(groups, *ledger, result);
    }
    compare_groups(result, grouping.by, ledger);
    return result;
}

}  // namespace cep::tool
