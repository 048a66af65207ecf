// SPDX-License-Identifier: Apache-2.0
#include "model/load.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/heap.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "model/depths.hpp"
#include "model/repeats.hpp"
#include "model/series_builder.hpp"
#include "read/open_spans.hpp"
#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

/// Everything but the counts of the inputs. Joined loaded hold the same, in order(), whatever was joined first.
struct LoadedRows {
    RankSeries ranks;
    StepChoice choice;  // of the steps that have samples
    std::vector<OpenSpan> open_spans;
    std::map<std::string, MarkCount> marks;
    CoverageCollector coverage;
    std::uint64_t left_out_ranks = 0;  // more than SampleBudget::max_ranks
    std::uint64_t left_out_runs = 0;   // of ranks

    /// Both of the same choice of steps.
    void merge(LoadedRows&& other) {
        ranks.merge(other.ranks);  // those that are new
        for (auto& [rank, all_series] : other.ranks)
            std::move(all_series.begin(), all_series.end(), std::back_inserter(ranks[rank]));
        std::move(other.open_spans.begin(), other.open_spans.end(), std::back_inserter(open_spans));
        for (auto& [name, mark] : other.marks) {
            MarkCount& all = marks[name];
            all.ranks.merge(mark.ranks);
            all.steps.merge(mark.steps);
            all.count += mark.count;
        }
        coverage.merge(other.coverage);
        left_out_ranks += other.left_out_ranks;
        left_out_runs += other.left_out_runs;
    }

    /// Leaves the samples of fewer steps, and of no fewer than before.
    void thin(StepChoice wanted) {
        if (wanted <= choice) return;
        choice = wanted;
        for (auto& [rank, all_series] : ranks)
            for (RunSeries& series : all_series) series.thin(choice);
    }

    void order() {
        for (auto& [rank, all_series] : ranks) order_series(all_series);
        std::sort(open_spans.begin(), open_spans.end(), [](const OpenSpan& a, const OpenSpan& b) {
            return std::tie(a.rank, a.attempt, a.step, a.name, a.start_ns, a.elapsed_ms, a.line) <
                   std::tie(b.rank, b.attempt, b.step, b.name, b.start_ns, b.elapsed_ms, b.line);
        });
    }
};

/// The rows of one file, sorted into series by rank and run.
class FileSeries final : public RowSink {
  public:
    FileSeries(const LoadOptions& options, std::shared_ptr<SampleBudget> budget)
        : options_(options), meter_(std::move(budget)) {}
    // Nearly all rows are spans of the rank and the run that the row before was of. Flattened, as
    // calls for each row take time.
    [[gnu::flatten]] void take(const Row& row, RunOfRow run, std::uint64_t line) override {
        if (spans_to_ == nullptr || row.type != RowType::span || *row.rank != last_rank_ ||
            run.index != last_state_->run)
            return take_other(row, run, line);
        add(*spans_to_, row);
        open_spans_.take(row, last_state_->attempt, line);
    }

    /// Once, after the last row.
    [[nodiscard]] LoadedRows finish() {
        for (const auto& [rank, of_rank] : ranks_)
            for (const auto& [run, series] : of_rank) spend(series);
        rows_.choice = meter_.choice();
        while (!ranks_.empty()) {  // one by one, so that few series are there twice
            auto of_rank = ranks_.extract(ranks_.begin());
            rows_.coverage.seen.insert(of_rank.key());
            for (auto& [run, series] : of_rank.mapped()) rows_.ranks[of_rank.key()].push_back(series.finish());
        }
        rows_.open_spans = open_spans_.all();
        return std::move(rows_);
    }

  private:
    using SeriesByRun = std::map<int, SeriesBuilder>;  // by index of the run in the file

    /// Where the rows of a rank go.
    struct RankState {
        int run = unknown_run;  // index of the run in the file
        std::int64_t attempt = 1;
        SeriesBuilder* series = nullptr;  // nullptr: the attempt was not asked for, or there are too many
        bool left_out = false;            // there are too many ranks
    };
    static constexpr int unknown_run = std::numeric_limits<int>::min();

    void add(SeriesBuilder& series, const Row& row) {
        if (row.is_unfinished) [[unlikely]]
            return;  // nobody knows how long it would have taken
        if (options_.only_comm && (row.kind != schema::Kind::comm || !series.admits_channel(row, meter_.budget())))
            return;
        series.add(row, meter_);
        if (meter_.is_due()) [[unlikely]]
            spend(series);
    }

    // Another file may have made the choice of steps smaller, too.
    void spend(const SeriesBuilder& series) {
        const StepChoice before = meter_.choice();
        meter_.spend(series.step_tally());
        if (meter_.choice() == before) return;
        for (auto& [rank, of_rank] : ranks_)
            for (auto& [run, each] : of_rank) each.series().thin(meter_.choice());
    }

    // A rank that has only rows that were not asked for is there all the same.
    void enter_rank(std::int64_t rank) {
        const auto [found, is_new] = states_.try_emplace(rank);
        if (is_new && options_.filter.accepts_rank(rank)) {
            found->second.left_out = !meter_.budget().admit_rank();
            if (found->second.left_out) {
                ++rows_.left_out_ranks;
            } else {
                ranks_[rank];
            }
        }
        last_state_ = &found->second;
        last_rank_ = rank;
    }

    void enter_run(RankState& state, std::int64_t rank, RunOfRow run) {
        state.run = run.index;
        state.attempt = run.attempt();
        state.series = nullptr;
        using Mode = AttemptChoice::Mode;
        if (options_.attempt.mode == Mode::one && state.attempt != options_.attempt.attempt) return;
        SeriesByRun& of_rank = ranks_[rank];
        if (!of_rank.contains(run.index) && !meter_.budget().admit_run()) {
            ++rows_.left_out_runs;
            return;
        }
        // Where all attempts count, the collectives of one are none of another.
        const bool is_apart = options_.attempt.mode == Mode::all;
        const std::uint64_t attempt = is_apart ? mix_bits(static_cast<std::uint64_t>(state.attempt)) : 0;
        state.series = &of_rank.try_emplace(run.index, options_.keeps_messages, attempt).first->second;
        state.series->series().has_run = run.start != nullptr;
    }

    [[gnu::noinline]] void take_other(const Row& row, RunOfRow run, std::uint64_t line) {
        spans_to_ = nullptr;
        if (!row.rank) return;
        if (last_state_ == nullptr || last_rank_ != *row.rank) enter_rank(*row.rank);
        RankState& state = *last_state_;
        if (state.left_out || !options_.filter.accepts(row)) return;
        if (row.type == RowType::run) rows_.coverage.saw_run(*row.run);
        if (state.run != run.index) enter_run(state, *row.rank, run);
        if (state.series == nullptr) return;
        if (options_.filter.accepts_all()) spans_to_ = state.series;
        switch (row.type) {
            case RowType::span:
                add(*state.series, row);
                [[fallthrough]];
            case RowType::open:
                return open_spans_.take(row, state.attempt, line);
            case RowType::counter:
                return state.series->add_counter(row);
            case RowType::mark:
                if (row.stride != nullptr) return state.series->add_stride_change(*row.stride);
                return take_mark(row);
            case RowType::stats:
                state.series->series().stats = *row.stats;
                state.series->series().has_stats = true;
                return;
            case RowType::run:
                if (!run.is_ignored) state.series->series().run = *row.run;
                // Every rank's run row may list all ranks; the coverage has them once.
                state.series->series().run.listed_ranks.reset();
                return;
            case RowType::unknown:
                return;
        }
    }

    void take_mark(const Row& row) {
        MarkCount& mark = rows_.marks[std::string(row.name)];
        mark.ranks.insert(*row.rank);
        mark.steps.insert(*row.step);
        ++mark.count;
    }

    const LoadOptions& options_;
    SampleMeter meter_;
    std::map<std::int64_t, SeriesByRun> ranks_;
    std::unordered_map<std::int64_t, RankState> states_;
    RankState* last_state_ = nullptr;  // rows of a rank come together
    std::int64_t last_rank_ = 0;
    SeriesBuilder* spans_to_ = nullptr;  // where all spans of the last rank and run go; nullptr: it depends
    OpenSpans open_spans_;
    LoadedRows rows_;
};

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

/// Rows take about a sixth of what they take as text, and what is found about them less than that.
std::uint64_t memory_for(const InputSet& inputs) {
    std::uint64_t bytes = 0;
    for (const InputFile& file : inputs.files) bytes += file.size_bytes;
    return bytes / 4;
}

/// All that the inputs hold. The loaded are in their order().
LoadedRows read_rows(const InputSet& inputs, const LoadOptions& options, RunSelection& selection, InputCounts& counts) {
    reserve_heap(memory_for(inputs));
    auto budget = std::make_shared<SampleBudget>(options.max_samples);
    LoadedRows loaded;
    StepNumbers last_steps;  // of the series that was read last
    counts = read_run(
        inputs, options.reading, selection,
        [&] {
            budget = std::make_shared<SampleBudget>(options.max_samples);
            loaded = LoadedRows();
        },
        [&](const InputFile&, std::size_t) { return std::make_unique<FileSeries>(options, budget); },
        [&](FileSeries&& file, FileReport&&) {
            LoadedRows more = file.finish();
            loaded.thin(std::max(more.choice, budget->choice()));
            more.thin(loaded.choice);
            for (auto& [rank, of_rank] : more.ranks)
                for (RunSeries& series : of_rank) series.steps.share(last_steps);
            loaded.merge(std::move(more));
        });
    loaded.thin(budget->choice());
    loaded.order();
    return loaded;
}

}  // namespace

Job load(const InputSet& inputs, const LoadOptions& options) {
    Job job;
    job.selection = RunSelection(options.run);
    LoadedRows loaded = read_rows(inputs, options, job.selection, job.inputs);
    job.filter = options.filter;
    job.coverage = loaded.coverage.finish(job.filter);
    job.ranks = std::move(loaded.ranks);
    job.open_spans = std::move(loaded.open_spans);
    job.marks = std::move(loaded.marks);
    job.choice = loaded.choice;
    say_left_out(loaded.left_out_ranks, "rank", SampleBudget::max_ranks);
    say_left_out(loaded.left_out_runs, "run", SampleBudget::max_runs);
    RunCollector runs;
    for (const auto& [rank, all_series] : job.ranks) runs.add_rank(all_series, job.loss);
    job.hosts = runs.hosts();
    job.runs = runs.finish();
    job.steps = find_window(job.ranks);
    resolve_repeats(job, options.attempt.mode == AttemptChoice::Mode::last);
    job.early_end = find_early_end(job.ranks);
    find_depths(job.ranks, options.reading.thread_count());
    if (options.numbers_collectives) number_collectives(job, options.reading.thread_count());
    return job;
}

}  // namespace cep::tool
