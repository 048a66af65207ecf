// SPDX-License-Identifier: Apache-2.0
#include "summary/summary_groups.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "base/failure.hpp"
#include "base/parallel.hpp"
#include "summary/phase_table.hpp"

namespace cep::tool {
namespace {

using By = Grouping::By;
using Ranks = std::map<std::int64_t, std::vector<RunSeries>>;
using GroupKey = std::pair<std::int64_t, std::string>;  // rank or first step; host
using Groups = std::map<GroupKey, Ranks>;

constexpr std::string_view step_prefix = "step:";

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

Groups group_by_rank(Ranks&& ranks) {
    Groups groups;
    for (auto& [rank, all_series] : ranks) {
        std::string host;
        for (const RunSeries& series : all_series)
            if (!series.run.host.empty()) host = series.run.host;
        groups[{rank, host}][rank] = std::move(all_series);
    }
    return groups;
}

Groups group_by_host(Ranks&& ranks) {
    Groups groups;
    for (auto& [rank, all_series] : ranks)
        for (RunSeries& series : all_series) {
            Ranks& of_host = groups[{0, series.run.host}];
            of_host[rank].push_back(std::move(series));
        }
    return groups;
}

/// The samples of one series, dealt out to the windows of their steps.
class WindowDealer {
  public:
    WindowDealer(Groups& groups, std::int64_t rank, const RunSeries& series, std::int64_t window_steps)
        : groups_(groups), rank_(rank), series_(series) {
        for (const std::int64_t step : series.steps) windows_.push_back(window_of(step, window_steps));
    }
    void deal(const PhaseSeries& phase) {
        std::map<std::int64_t, PhaseSeries> dealt;
        for (Sample sample : phase.samples) {
            PhaseSeries& part = dealt[windows_[sample.step_index]];
            sample.step_index = index_in_window(sample.step_index);
            part.samples.push_back(sample);
        }
        for (auto& [window, part] : dealt) {
            part.name = phase.name;
            part.kind = phase.kind;
            part.clock = phase.clock;
            part.samples.seal();
            part_of(window).phases.push_back(std::move(part));
        }
    }

  private:
    RunSeries& part_of(std::int64_t window) {
        const auto [found, is_new] = parts_.try_emplace(window, 0);
        std::vector<RunSeries>& of_rank = groups_[{window, ""}][rank_];
        if (is_new) {
            found->second = of_rank.size();
            of_rank.emplace_back().run = series_.run;
        }
        return of_rank[found->second];
    }
    std::uint32_t index_in_window(std::uint32_t step_index) {
        if (indices_.empty()) indices_.resize(series_.steps.size(), unknown);
        if (indices_[step_index] == unknown) {
            std::vector<std::int64_t>& steps = part_of(windows_[step_index]).steps;
            indices_[step_index] = static_cast<std::uint32_t>(steps.size());
            steps.push_back(series_.steps[step_index]);
        }
        return indices_[step_index];
    }

    static constexpr std::uint32_t unknown = UINT32_MAX;
    Groups& groups_;
    std::int64_t rank_;
    const RunSeries& series_;
    std::vector<std::int64_t> windows_;          // by step index
    std::vector<std::uint32_t> indices_;         // in their window, by step index
    std::map<std::int64_t, std::size_t> parts_;  // by window: which series of the rank
};

Groups group_by_step(Ranks&& ranks, std::int64_t window_steps) {
    Groups groups;
    for (auto& [rank, all_series] : ranks)
        for (RunSeries& series : all_series) {
            WindowDealer dealer(groups, rank, series, window_steps);
            for (PhaseSeries& phase : series.phases) {
                dealer.deal(phase);
                phase.samples = {};
            }
        }
    return groups;
}

Groups group(const Grouping& grouping, Ranks&& ranks) {
    if (grouping.by == By::rank) return group_by_rank(std::move(ranks));
    if (grouping.by == By::host) return group_by_host(std::move(ranks));
    return group_by_step(std::move(ranks), grouping.window_steps);
}

// Against the other groups: the same phase, a group as good as another whatever its number of spans.
void compare_groups(std::vector<GroupSummary>& groups) {
    std::map<std::string_view, std::vector<double>> medians_ms;
    for (const GroupSummary& group : groups) medians_ms[group.phase.name].push_back(group.phase.p50_ms);
    std::map<std::string_view, double> typical_ms;
    for (auto& [name, values] : medians_ms) typical_ms[name] = exact_quantile(values, 0.5);
    for (GroupSummary& group : groups) {
        const double typical = typical_ms[group.phase.name];
        group.excess_ms = group.phase.p50_ms - typical;
        if (typical > 0) group.median_ratio = group.phase.p50_ms / typical;
    }
}

}  // namespace

Grouping Grouping::parse(std::string_view text) {
    if (text == "phase") return {By::phase, 1};
    if (text == "rank") return {By::rank, 1};
    if (text == "host") return {By::host, 1};
    Grouping grouping{By::step, 0};
    if (text.starts_with(step_prefix)) {
        const char* const end = text.data() + text.size();
        const auto [parsed, error] = std::from_chars(text.data() + step_prefix.size(), end, grouping.window_steps);
        if (error == std::errc{} && parsed == end && grouping.window_steps > 0) return grouping;
    }
    throw UsageError("--by: not phase, rank, host or step:N with N of at least 1: \"" + std::string(text) + "\"");
}

std::string Grouping::name() const {
    switch (by) {
        case By::phase:
            return "phase";
        case By::rank:
            return "rank";
        case By::host:
            return "host";
        case By::step:
            break;
    }
    return std::string(step_prefix) + std::to_string(window_steps);
}

std::vector<GroupSummary> summarize_groups(const Grouping& grouping, Ranks&& ranks, bool in_histograms,
                                           std::size_t threads) {
    if (grouping.by == By::phase) return {};
    if (grouping.by == By::step && in_histograms)
        throw UsageError("--by " + grouping.name() + " needs every duration, and there are more than --max-samples");
    const Groups groups = group(grouping, std::move(ranks));
    std::vector<const Groups::value_type*> in_order;
    for (const auto& one : groups) in_order.push_back(&one);
    std::vector<std::vector<PhaseSummary>> phases(in_order.size());
    for_all(phases.size(), threads, [&](std::size_t i) { phases[i] = summarize_phases(in_order[i]->second, 1); });
    std::vector<GroupSummary> result;
    for (std::size_t i = 0; i < phases.size(); ++i)
        for (PhaseSummary& phase : phases[i]) {
            const auto& [first, host] = in_order[i]->first;
            GroupSummary summary;
            summary.first = first;
            summary.last = end_of_window(first, grouping.window_steps);
            summary.host = host;
            summary.phase = std::move(phase);
            result.push_back(std::move(summary));
        }
    compare_groups(result);
    return result;
}

std::vector<const GroupSummary*> telling_groups(const SummaryResult& result, std::size_t limit) {
    std::vector<const GroupSummary*> groups;
    for (const GroupSummary& group : result.groups) groups.push_back(&group);
    const bool in_time = result.grouping.by == By::step;
    const bool too_many = limit > 0 && groups.size() > limit;
    if (!in_time || too_many)
        std::stable_sort(groups.begin(), groups.end(),
                         [](const GroupSummary* a, const GroupSummary* b) { return a->excess_ms > b->excess_ms; });
    if (too_many) groups.resize(limit);
    if (in_time && too_many) std::sort(groups.begin(), groups.end());
    return groups;
}

}  // namespace cep::tool
