// SPDX-License-Identifier: Apache-2.0
#include "summary/summary.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/repeats.hpp"
#include "stats/step_pattern.hpp"
#include "summary/phase_table.hpp"
#include "summary/summary_groups.hpp"

namespace cep::tool {
namespace {

// Of a few phases that were asked for, only step spans among them make a whole to be a share of.
void drop_baseless_shares(SummaryResult& result) {
    for (const PhaseSummary& phase : result.phases)
        if (phase.kind == schema::Kind::step) return;
    for (PhaseSummary& phase : result.phases) phase.share.reset();
    for (GroupSummary& group : result.groups) group.phase.share.reset();
}

}  // namespace

PartialScope SummaryOptions::scope() const {
    const bool one_attempt = attempt.mode == AttemptChoice::Mode::one;
    return {filter, one_attempt ? std::optional(attempt.attempt) : std::nullopt};
}

bool FileSummary::chosen(std::int64_t attempt) const {
    return options_.attempt.mode != AttemptChoice::Mode::one || attempt == options_.attempt.attempt;
}

// A rank that has only rows that were not asked for is there all the same.
void FileSummary::enter_rank(std::int64_t rank) {
    const auto [found, is_new] = places_.try_emplace(rank);
    if (is_new && options_.filter.accepts_rank(rank)) ranks_[rank];
    last_place_ = &found->second;
    last_rank_ = rank;
}

void FileSummary::enter_run(RankPlace& place, std::int64_t rank, int run) {
    const bool known = run != RunTracker::no_run;
    place.run = run;
    place.attempt = known ? tracker_.runs(rank)[static_cast<std::size_t>(run)].attempt : 1;
    place.series = chosen(place.attempt) ? &ranks_[rank][run] : nullptr;
    if (place.series != nullptr) place.series->has_run = known;
}

void FileSummary::take_mark(const Row& row) {
    MarkCount& mark = marks_[std::string(row.name)];
    mark.ranks.insert(*row.rank);
    mark.steps.insert(*row.step);
    ++mark.count;
}

void FileSummary::take_slowly(const Row& row, std::uint64_t line) {
    settled_ = nullptr;
    if (!row.rank) return;
    const int run = tracker_.observe(row).run;
    if (last_place_ == nullptr || last_rank_ != *row.rank) enter_rank(*row.rank);
    RankPlace& place = *last_place_;
    if (!options_.filter.accepts(row)) return;
    if (place.run != run) enter_run(place, *row.rank, run);
    if (place.series == nullptr) return;
    if (row.type != RowType::run && tracker_.is_settled() && options_.filter.accepts_all()) settled_ = &place;
    switch (row.type) {
        case RowType::span:
            place.series->add(row, *budget_);
            [[fallthrough]];
        case RowType::open:
            return open_spans_.take(row, place.attempt, line);
        case RowType::counter:
            return place.series->add_counter(row);
        case RowType::mark:
            return take_mark(row);
        case RowType::stats:
            place.series->stats = *row.stats;
            place.series->has_stats = true;
            return;
        case RowType::run:
        case RowType::unknown:
            return;
    }
}

void JobSummary::add(FileSummary&& file) {
    JobParts parts;
    for (auto& [rank, series_by_run] : file.ranks_) {
        parts.coverage.saw_rank(rank);
        const std::vector<RunInfo>& runs = file.tracker_.runs(rank);
        for (const RunInfo& run : runs) parts.coverage.saw_run(run);
        for (auto& [run, series] : series_by_run) {
            if (run != RunTracker::no_run) series.run = runs[static_cast<std::size_t>(run)];
            // Every rank's run row may list all ranks; the coverage has them once.
            series.run.listed_ranks.reset();
            series.seal();
            parts.ranks[rank].push_back(std::move(series));
        }
    }
    parts.open_spans = file.open_spans_.all();
    parts.marks = std::move(file.marks_);
    add(std::move(parts));
}

// Whether the durations fit is a matter of their number alone, and so the same for every order of the inputs.
void JobSummary::add(JobParts&& parts) {
    samples_ += parts.samples();
    const bool was_over_budget = over_budget_;
    over_budget_ |= samples_ > options_.max_samples || parts.has_histograms();
    if (over_budget_) parts.fold();
    if (over_budget_ && !was_over_budget) parts_.fold();
    parts_.merge(std::move(parts));
}

void JobSummary::adopt(const PartialScope& scope) {
    options_.filter = scope.filter;
    if (scope.attempt) options_.attempt = {AttemptChoice::Mode::one, *scope.attempt};
}

void JobSummary::save(Output& output, const InputCounts& inputs) {
    parts_.order();
    write_partial(output, options_.scope(), inputs, parts_);
}

// The same run may be in two files; its stats rows then count the same spans, and the later row counts more.
void JobSummary::collect_runs(SummaryResult& result) const {
    std::map<std::pair<std::string, std::int64_t>, RunSummary> runs;
    std::set<std::string> hosts;
    for (const auto& [rank, all_series] : parts_.ranks) {
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
    for (auto& [rank, all_series] : parts_.ranks) {
        const RepeatCounts counts = remove_repeats(all_series, last_attempt_only);
        result.superseded_rows += counts.superseded_rows;
        result.duplicate_rows += counts.duplicate_rows;
        result.repeats_unresolved |= counts.unresolved;
    }
}

void JobSummary::find_window(SummaryResult& result) const {
    std::set<std::int64_t> steps;
    std::set<std::int64_t> strides;
    const std::vector<std::int64_t>* last = nullptr;  // ranks usually have the same steps
    for (const auto& [rank, all_series] : parts_.ranks)
        for (const RunSeries& series : all_series) {
            const bool known = last != nullptr && *last == series.steps;
            if (!known) std::copy(series.steps.begin(), series.steps.end(), std::inserter(steps, steps.end()));
            last = &series.steps;
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

Verdict JobSummary::judge_job(const SummaryResult& result) const {
    Evidence evidence{result.coverage,
                      result.loss,
                      {},
                      options_.peak_flops,
                      result.stride.value_or(1),
                      options_.filter.has_phases(),
                      over_budget_,
                      options_.threads};
    for (const auto& [name, mark] : parts_.marks) evidence.marked_steps.insert(mark.steps.begin(), mark.steps.end());
    return judge(parts_.ranks, evidence);
}

SummaryResult JobSummary::finish(const std::function<void(const JobParts&)>& visit) {
    SummaryResult result;
    parts_.order();
    result.coverage = parts_.coverage.finish(options_.filter);
    collect_runs(result);
    find_window(result);
    resolve_repeats(result);
    if (visit) visit(parts_);
    result.approximate = over_budget_;
    result.phases = summarize_phases(parts_.ranks, options_.threads);
    result.counters = summarize_counters(parts_.ranks);
    result.memory = summarize_memory(parts_.ranks);
    if (options_.wants_verdict) result.verdict = judge_job(result);
    result.open_spans = std::move(parts_.open_spans);
    result.marks = std::move(parts_.marks);
    result.grouping = options_.grouping;
    result.groups = summarize_groups(options_.grouping, std::move(parts_.ranks), over_budget_, options_.threads);
    if (options_.filter.has_phases()) drop_baseless_shares(result);
    return result;
}

}  // namespace cep::tool
