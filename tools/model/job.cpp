// SPDX-License-Identifier: Apache-2.0
#include "model/job.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/say.hpp"
#include "base/units.hpp"
#include "model/blocking_comm.hpp"
#include "model/file_series.hpp"
#include "model/load.hpp"
#include "model/repeats.hpp"
#include "model/shared_names.hpp"
#include "read/read_run.hpp"
#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

using RunAttempt = std::pair<std::string_view, std::int64_t>;  // run id, attempt

/// Collects the runs of a job, rank by rank.
class RunCollector {
  public:
    /// The same run may be in two files; its stats rows then count the same spans, and the later row counts more.
    void add_rank(const std::vector<RunSeries>& all_series, Loss& loss) {
        std::map<RunAttempt, StatsRow> last_stats;
        std::set<RunAttempt> counted;
        for (const RunSeries& series : all_series) {
            const RunAttempt key(series.run.run_id, series.run.attempt);
            if (series.has_stats && series.stats.recorded >= last_stats[key].recorded) last_stats[key] = series.stats;
            if (!series.has_run) continue;
            if (!series.run.host.empty()) hosts_.insert(series.run.host);
            JobRun& run = runs_[key];
            run.ranks += counted.insert(key).second;
            run.start_unix_ns = std::min(run.start_unix_ns, series.run.start_unix_ns.value_or(run.start_unix_ns));
            if (series.steps.empty()) continue;
            const std::int64_t first = series.steps.all().front();
            run.first_step = std::min(run.first_step.value_or(first), first);
            run.last_step = std::max(run.last_step.value_or(first), series.steps.back());
        }
        for (const auto& [key, stats] : last_stats) loss.add(stats);
    }

    [[nodiscard]] std::uint64_t hosts() const { return hosts_.size(); }
    /// Runs in the order of their starts; of equal ones, by id and attempt.
    [[nodiscard]] std::vector<JobRun> finish() {
        std::vector<JobRun> runs;
        for (auto& [key, run] : runs_) {
            run.run_id = key.first;
            run.attempt = key.second;
            runs.push_back(std::move(run));
        }
        std::stable_sort(runs.begin(), runs.end(),
                         [](const JobRun& a, const JobRun& b) { return a.start_unix_ns < b.start_unix_ns; });
        return runs;
    }

  private:
    std::map<RunAttempt, JobRun> runs_;  // keys view the series
    std::set<std::string_view> hosts_;
};

StepWindow find_window(const RankSeries& ranks) {
    const std::vector<std::int64_t> steps = all_steps(ranks);
    std::set<std::int64_t> strides;
    for (const SeriesOfRank& of : all_series(ranks)) {
        if (of.series->run.record_every_n_steps) strides.insert(*of.series->run.record_every_n_steps);
        if (const auto& change = of.series->stride) strides.insert({change->from, change->to, change->longest});
    }
    StepWindow window;
    window.count = steps.size();
    if (steps.empty()) return window;
    window.first = steps.front();
    window.last = steps.back();
    window.stride = strides.size() == 1 ? std::optional(*strides.begin()) : infer_stride(steps);
    return window;
}

/// Marks the steps that a rank left out between its first change and its last step.
void mark_left_out(const RunSeries& series, const std::vector<std::int64_t>& steps, std::vector<bool>& is_partial) {
    const StrideChange& change = *series.stride;
    const std::vector<std::int64_t>& own = series.steps.all();
    if (own.empty()) return;
    const auto longest = static_cast<std::uint64_t>(change.longest);
    const std::int64_t start = series.run.start_step.value_or(0);
    auto next = std::upper_bound(own.begin(), own.end(), change.first_step);
    for (auto step = std::upper_bound(steps.begin(), steps.end(), change.first_step); step != steps.end(); ++step) {
        if (*step > own.back() && step_difference(own.back(), *step) >= longest) return;
        while (next != own.end() && *next < *step) ++next;
        if (next != own.end() && *next == *step) continue;
        // Each stride has the steps of the longest one: without such a step, something else is the reason.
        if (step_difference(start, *step) % longest != 0)
            is_partial[static_cast<std::size_t>(step - steps.begin())] = true;
    }
}

void resolve_repeats(Job& job, bool last_attempt_only) {
    for (auto& [rank, all_series] : job.ranks) {
        const RepeatCounts counts = remove_repeats(all_series, last_attempt_only);
        job.superseded_rows += counts.superseded_rows;
        job.duplicate_rows += counts.duplicate_rows;
        job.repeats_unresolved |= counts.unresolved;
    }
}

void say_left_out(std::uint64_t count, std::string_view noun, std::uint64_t kept) {
    if (count > 0) say("cep: {} left out: at most {} are kept\n", format_plural(count, noun), format_count(kept));
}

/// All that the inputs hold. The parts are in their order().
JobParts read_parts(const InputSet& inputs, const LoadOptions& options, RunSelection& selection, InputCounts& counts) {
    auto budget = std::make_shared<SampleBudget>(options.max_samples);
    JobParts parts;
    std::shared_ptr<StepNumbers::Numbers> last_steps;  // of the series that was read last
    counts = read_run(
        inputs, options.reading, selection,
        [&] {
            budget = std::make_shared<SampleBudget>(options.max_samples);
            parts = JobParts();
        },
        [&](const InputFile&, std::size_t) { return std::make_unique<FileSeries>(options, budget); },
        [&](FileSeries&& file, FileReport&&) {
            JobParts more = file.finish();
            parts.thin(std::max(more.choice, budget->choice()));
            more.thin(parts.choice);
            for (auto& [rank, of_rank] : more.ranks)
                for (RunSeries& series : of_rank) series.steps.share(last_steps);
            parts.merge(std::move(more));
        });
    parts.thin(budget->choice());
    parts.order();
    return parts;
}

}  // namespace

Job load(const InputSet& inputs, const LoadOptions& options) {
    Job job;
    job.selection = RunSelection(options.run);
    JobParts parts = read_parts(inputs, options, job.selection, job.inputs);
    job.filter = options.filter;
    job.coverage = parts.coverage.finish(job.filter);
    job.ranks = std::move(parts.ranks);
    job.open_spans = std::move(parts.open_spans);
    job.marks = std::move(parts.marks);
    job.choice = parts.choice;
    say_left_out(parts.left_out_ranks, "rank", SampleBudget::max_ranks);
    say_left_out(parts.left_out_runs, "run", SampleBudget::max_runs);
    RunCollector runs;
    for (const auto& [rank, all_series] : job.ranks) runs.add_rank(all_series, job.loss);
    job.hosts = runs.hosts();
    job.runs = runs.finish();
    job.steps = find_window(job.ranks);
    resolve_repeats(job, options.attempt.mode == AttemptChoice::Mode::last);
    if (options.numbers_collectives) number_collectives(job, options.reading.thread_count());
    return job;
}

void number_collectives(Job& job, std::size_t threads) {
    std::vector<std::int64_t> steps = all_steps(job.ranks);
    std::erase_if(steps, [&job](std::int64_t step) { return !job.choice.keeps(step); });
    find_blocking_comm(job.ranks, steps);
    job.collectives = number_collectives(job.ranks, steps, threads);
    if (separate_groups(job, threads)) job.collectives = number_collectives(job.ranks, steps, threads);
}

std::vector<SeriesOfRank> all_series(const RankSeries& ranks) {
    std::vector<SeriesOfRank> all;
    for (const auto& [rank, of_rank] : ranks)
        for (const RunSeries& series : of_rank) all.push_back({rank, &series});
    return all;
}

std::vector<std::int64_t> all_steps(const RankSeries& ranks) {
    std::vector<std::int64_t> all;
    std::size_t sorted = 0;  // the first of them, each once
    const auto sort = [&] {
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        sorted = all.size();
    };
    const std::vector<std::int64_t>* last = nullptr;  // ranks usually have the same steps
    for (const SeriesOfRank& of : all_series(ranks)) {
        const std::vector<std::int64_t>& steps = of.series->steps.all();
        if (last != nullptr && *last == steps) continue;
        last = &steps;
        const auto known = all.begin() + static_cast<std::ptrdiff_t>(sorted);
        if (steps.empty()) continue;
        if (std::includes(std::lower_bound(all.begin(), known, steps.front()), known, steps.begin(), steps.end()))
            continue;
        all.insert(all.end(), steps.begin(), steps.end());
        if (all.size() > 2 * sorted) sort();
    }
    sort();
    return all;
}

// Files of a job that goes on may end a flush apart, and few steps at the end are not worth a word.
std::optional<EarlyEnd> find_early_end(const RankSeries& ranks, const std::vector<std::int64_t>& steps) {
    constexpr std::size_t least_steps = 8;      // that are missing
    constexpr std::size_t least_part = 10;      // of all steps: one in so many
    constexpr std::int64_t flushed_steps = 10;  // between flushes
    std::int64_t attempt = std::numeric_limits<std::int64_t>::min();
    for (const SeriesOfRank& of : all_series(ranks)) attempt = std::max(attempt, of.series->run.attempt);
    const auto missing_after = [&](std::int64_t step) {
        return static_cast<std::size_t>(steps.end() - std::upper_bound(steps.begin(), steps.end(), step));
    };
    EarlyEnd end;
    end.last_step = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, of_rank] : ranks) {
        const RunSeries& series = of_rank.back();
        if (series.run.attempt != attempt || series.steps.empty()) continue;
        const std::int64_t last = series.steps.back();
        if (missing_after(last) < std::max(least_steps, steps.size() / least_part)) continue;
        if (steps.back() - last <= flushed_steps) continue;
        end.ranks.push_back(rank);
        end.last_step = std::min(end.last_step, last);
    }
    if (end.ranks.empty()) return std::nullopt;
    constexpr std::size_t least_compared = 4;  // of all steps: one in so many
    const std::size_t before = steps.size() - missing_after(end.last_step);
    end.is_compared = before >= std::max(least_steps, steps.size() / least_compared);
    return end;
}

std::vector<bool> find_partial_steps(const RankSeries& ranks, const std::vector<std::int64_t>& steps) {
    std::vector<bool> is_partial;
    const RunSeries* last = nullptr;  // ranks usually have the same steps
    for (const SeriesOfRank& of : all_series(ranks)) {
        const RunSeries& series = *of.series;
        if (!series.stride) continue;
        if (last != nullptr && last->steps == series.steps && *last->stride == *series.stride) continue;
        last = &series;
        is_partial.resize(steps.size());
        mark_left_out(series, steps, is_partial);
    }
    return is_partial;
}

StepPhase find_step_phase(std::span<const SeriesOfRank> all_series) {
    std::map<std::string_view, double> totals_ms;
    for (const SeriesOfRank& of : all_series)
        for (const PhaseSeries& phase : of.series->phases)
            if (phase.kind == schema::Kind::step) totals_ms[phase.name] += totals_of(phase).sum_ms;
    const auto longest = std::max_element(totals_ms.begin(), totals_ms.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    if (longest == totals_ms.end()) return {};
    return {true, longest->first, longest->second};
}

RankRole role_of(std::int64_t rank, const std::vector<RunSeries>& of_rank) {
    const RunInfo& run = of_rank.back().run;
    return {rank,
            run.host,
            run.tp,
            run.pp,
            run.flops_per_step,
            run.hardware_flops_per_step,
            run.peak_flops,
            run.tokens_per_step,
            run.device_name};
}

}  // namespace cep::tool
