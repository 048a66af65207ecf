// SPDX-License-Identifier: Apache-2.0
#include "summary/summary_groups.hpp"

#include <algorithm>
#include <deque>
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

/// A rank, a host or a window of steps, and its series.
struct Group {
    std::int64_t first = 0;  // the rank, or the first step of the window
    std::string host;
    std::vector<SeriesOfRank> series;  // rank by rank
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
            group.series.push_back({rank, &series});
        }
    }
    return groups;
}

std::vector<Group> group_by_host(const RankSeries& ranks) {
    std::map<std::string_view, std::vector<SeriesOfRank>> hosts;
    for (const auto& [rank, all_series] : ranks)
        for (const RunSeries& series : all_series) hosts[series.run.host].push_back({rank, &series});
    std::vector<Group> groups;
    for (auto& [host, series] : hosts) groups.push_back({0, std::string(host), std::move(series)});
    return groups;
}

/// Goes through the spans of one phase of a series in the order of their windows.
class WindowCursor {
  public:
    WindowCursor(SeriesOfRank of, const PhaseSeries& phase, std::int64_t window_steps)
        : of_(of), phase_(&phase), window_steps_(window_steps) {}

    [[nodiscard]] SeriesOfRank of() const { return of_; }
    [[nodiscard]] bool at_end() const { return at_ == phase_->samples.size(); }
    [[nodiscard]] std::int64_t window() const {
        return window_of(of_.series->steps[phase_->samples[at_].step_index], window_steps_);
    }
    /// Copies the spans of the window, and goes to the next one.
    std::size_t copy_to(RunSeries& in_window) {
        const std::int64_t window = this->window();
        PhaseSeries& copy = in_window.phases.emplace_back();
        copy.name = phase_->name;
        copy.kind = phase_->kind;
        copy.clock = phase_->clock;
        for (; !at_end() && this->window() == window; ++at_) {
            Sample copied = phase_->samples[at_];
            const std::int64_t step = of_.series->steps[copied.step_index];
            if (in_window.steps.empty() || in_window.steps.back() != step) in_window.steps.push_back(step);
            copied.step_index = static_cast<std::uint32_t>(in_window.steps.size() - 1);
            copy.samples.push_back(copied);
        }
        copy.samples.seal();
        return copy.samples.size();
    }

  private:
    SeriesOfRank of_;
    const PhaseSeries* phase_;
    std::int64_t window_steps_;
    std::size_t at_ = 0;
};

/// Copies the spans of a job window by window: those of a few windows are there twice at a time.
class WindowReader {
  public:
    WindowReader(const RankSeries& ranks, std::int64_t window_steps) {
        for (const SeriesOfRank& of : all_series(ranks))
            for (const PhaseSeries& phase : of.series->phases) {
                if (phase.samples.empty()) continue;
                cursors_.emplace_back(of, phase, window_steps);
                next_.push({cursors_.back().window(), cursors_.size() - 1});
            }
    }

    /// The next windows, in the order of time, valid until the next call; none behind the last.
    [[nodiscard]] const std::vector<Group>& next() {
        groups_.clear();
        copies_.clear();
        std::size_t copied = 0;
        while (!next_.empty()) {
            const auto [window, number] = next_.top();
            if (groups_.empty() || groups_.back().first != window) {
                if (copied >= spans_at_a_time) break;
                groups_.push_back({window, {}, {}});
                last_ = nullptr;
            }
            next_.pop();
            copied += cursors_[number].copy_to(copy_of(cursors_[number].of()));
            if (!cursors_[number].at_end()) next_.push({cursors_[number].window(), number});
        }
        return groups_;
    }

  private:
    static constexpr std::size_t spans_at_a_time = std::size_t{1} << 16;
    using WindowOfCursor = std::pair<std::int64_t, std::size_t>;  // its window, index of the cursor

    /// In the last group: the cursors of a series come one after the other.
    RunSeries& copy_of(SeriesOfRank of) {
        if (last_ != of.series) {
            last_ = of.series;
            copies_.emplace_back().run = of.series->run;
            groups_.back().series.push_back({of.rank, &copies_.back()});
        }
        return copies_.back();
    }

    std::vector<WindowCursor> cursors_;  // rank by rank, series by series
    std::priority_queue<WindowOfCursor, std::vector<WindowOfCursor>, std::greater<>> next_;
    std::vector<Group> groups_;
    std::deque<RunSeries> copies_;
    const RunSeries* last_ = nullptr;
};

void add_groups(const std::vector<Group>& groups, const Grouping& grouping, std::size_t threads,
                std::vector<GroupSummary>& result) {
    std::vector<std::vector<PhaseSummary>> phases(groups.size());
    for_all(phases.size(), threads, [&](std::size_t i) { phases[i] = summarize_phases(groups[i].series, 1); });
    for (std::size_t i = 0; i < phases.size(); ++i)
        for (PhaseSummary& phase : phases[i]) {
            GroupSummary& summary = result.emplace_back();
            summary.first = groups[i].first;
            summary.last = end_of_window(groups[i].first, grouping.window_steps);
            summary.host = groups[i].host;
            summary.phase = std::move(phase);
        }
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
    for_each_rank(std::span(group.series), [&](std::span<const SeriesOfRank> of_rank) {
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
        WindowReader reader(job.ranks, grouping.window_steps);
        while (true) {
            const std::vector<Group>& groups = reader.next();
            if (groups.empty()) break;
            add_groups(groups, grouping, threads, result);
        }
    } else if (grouping.by != By::phase) {
        const std::vector<Group> groups = grouping.by == By::rank ? group_by_rank(job.ranks) : group_by_host(job.ranks);
        add_groups(groups, grouping, threads, result);
        if (ledger != nullptr && !ledger->empty()) add_shares(groups, *ledger, result);
    }
    compare_groups(result, grouping.by, ledger);
    return result;
}

}  // namespace cep::tool
