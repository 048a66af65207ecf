// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "phase_table.hpp"
#include "repeats.hpp"
#include "step_pattern.hpp"

namespace cep::analysis {
namespace {

// Of a few phases that were asked for, only step spans among them make a whole to be a share of.
void drop_baseless_shares(std::vector<PhaseSummary>& phases) {
    for (const PhaseSummary& phase : phases)
        if (phase.kind == schema::Kind::step) return;
    for (PhaseSummary& phase : phases) phase.share.reset();
}

}  // namespace

bool FileSummary::chosen(std::int64_t attempt) const {
    return options_.attempt.mode != AttemptChoice::Mode::one || attempt == options_.attempt.attempt;
}

RunSeries& FileSummary::series_of(std::int64_t rank, int run) {
    if (last_series_ == nullptr || last_rank_ != rank || last_run_ != run) {
        last_series_ = &ranks_[rank][run];
        last_series_->has_run = run != RunTracker::no_run;
        last_rank_ = rank;
        last_run_ = run;
    }
    return *last_series_;
}

void FileSummary::take(const Row& row, std::uint64_t line) {
    if (!row.rank) return;
    const RunTracker::Place place = tracker_.observe(row);
    // A rank that has only rows that were not asked for is there all the same.
    if (row.rank != last_seen_rank_ && options_.filter.accepts_rank(*row.rank)) ranks_[*row.rank];
    last_seen_rank_ = row.rank;
    if (!options_.filter.accepts(row)) return;
    const std::vector<RunInfo>& runs = tracker_.runs(*row.rank);
    const std::int64_t attempt =
        place.run == RunTracker::no_run ? 1 : runs[static_cast<std::size_t>(place.run)].attempt;
    if (!chosen(attempt)) return;
    RunSeries& series = series_of(*row.rank, place.run);
    if (row.type == RowType::span) {
        series.add(row, *budget_);
        open_spans_.take(row, attempt, line);
    } else if (row.type == RowType::stats) {
        series.stats = *row.stats;
        series.has_stats = true;
    } else if (row.type == RowType::open) {
        open_spans_.take(row, attempt, line);
    } else if (row.type == RowType::mark) {
        MarkCount& mark = marks_[std::string(row.name)];
        mark.ranks.insert(*row.rank);
        mark.steps.insert(*row.step);
        ++mark.count;
    }
}

void JobSummary::add(FileSummary&& file) {
    for (auto& [rank, series_by_run] : file.ranks_) {
        coverage_.saw_rank(rank);
        const std::vector<RunInfo>& runs = file.tracker_.runs(rank);
        for (const RunInfo& run : runs) coverage_.saw_run(run);
        for (auto& [run, series] : series_by_run) {
            if (run != RunTracker::no_run) series.run = runs[static_cast<std::size_t>(run)];
            series.seal();
            ranks_[rank].push_back(std::move(series));
        }
    }
    const std::vector<OpenSpan>& open = file.open_spans_.all();
    open_spans_.insert(open_spans_.end(), open.begin(), open.end());
    for (auto& [name, mark] : file.marks_) {
        MarkCount& all = marks_[name];
        all.ranks.merge(mark.ranks);
        all.steps.merge(mark.steps);
        all.count += mark.count;
    }
}

// The same run may be in two files; its stats rows then count the same spans, and the later row counts more.
void JobSummary::collect_runs(SummaryResult& result) const {
    std::map<std::pair<std::string, std::int64_t>, RunSummary> runs;
    std::set<std::string> hosts;
    for (const auto& [rank, all_series] : ranks_) {
        std::map<std::pair<std::string, std::int64_t>, StatsRow> last_stats;
        std::set<std::pair<std::string, std::int64_t>> counted;
        for (const RunSeries& series : all_series) {
            const std::pair key(series.run.run_id, series.run.attempt);
            if (series.has_stats && series.stats.recorded >= last_stats[key].recorded) last_stats[key] = series.stats;
            if (!series.has_run) continue;
            if (!series.run.host.empty()) hosts.insert(series.run.host);
            RunSummary& run = runs[key];
            run.run_id = key.first;
            run.attempt = key.second;
            run.ranks += counted.insert(key).second;
            run.start_unix_ns = std::min(run.start_unix_ns, series.run.start_unix_ns.value_or(run.start_unix_ns));
            if (series.steps.empty()) continue;
            const auto [first, last] = std::minmax_element(series.steps.begin(), series.steps.end());
            run.first_step = std::min(run.first_step.value_or(*first), *first);
            run.last_step = std::max(run.last_step.value_or(*last), *last);
        }
        for (const auto& [key, stats] : last_stats) result.loss.add(stats);
    }
    for (auto& [key, run] : runs) result.runs.push_back(std::move(run));
    std::stable_sort(result.runs.begin(), result.runs.end(),
                     [](const RunSummary& a, const RunSummary& b) { return a.start_unix_ns < b.start_unix_ns; });
    result.hosts = hosts.size();
}

void JobSummary::resolve_repeats(SummaryResult& result) {
    const bool last_attempt_only = options_.attempt.mode == AttemptChoice::Mode::last;
    for (auto& [rank, all_series] : ranks_) {
        const RepeatCounts counts = remove_repeats(all_series, last_attempt_only);
        result.superseded_rows += counts.superseded_rows;
        result.duplicate_rows += counts.duplicate_rows;
        result.repeats_unresolved |= counts.unresolved;
    }
}

void JobSummary::find_window(SummaryResult& result) const {
    std::set<std::int64_t> steps;
    std::set<std::int64_t> strides;
    for (const auto& [rank, all_series] : ranks_)
        for (const RunSeries& series : all_series) {
            std::copy(series.steps.begin(), series.steps.end(), std::inserter(steps, steps.end()));
            if (series.run.record_every_n_steps) strides.insert(*series.run.record_every_n_steps);
        }
    result.steps = steps.size();
    if (steps.empty()) return;
    result.first_step = *steps.begin();
    result.last_step = *steps.rbegin();
    if (strides.size() == 1) {
        result.stride = *strides.begin();
    } else {
        result.stride = infer_stride(steps);
    }
}

SummaryResult JobSummary::finish() {
    SummaryResult result;
    result.coverage = coverage_.finish(options_.filter);
    collect_runs(result);
    find_window(result);
    resolve_repeats(result);
    result.approximate = budget_->exhausted();
    result.phases = summarize_phases(ranks_, result.approximate);
    if (options_.filter.has_phases()) drop_baseless_shares(result.phases);
    result.open_spans = std::move(open_spans_);
    std::sort(result.open_spans.begin(), result.open_spans.end(), [](const OpenSpan& a, const OpenSpan& b) {
        return std::tie(a.rank, a.attempt, a.step, a.name) < std::tie(b.rank, b.attempt, b.step, b.name);
    });
    result.marks = std::move(marks_);
    return result;
}

}  // namespace cep::analysis
