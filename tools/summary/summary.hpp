// SPDX-License-Identifier: Apache-2.0
//
// Summary: what `cep summarize` says about a job. Read file by file into FileSummary objects, joined by JobSummary.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/job_parts.hpp"
#include "model/partial.hpp"
#include "model/phase_series.hpp"
#include "read/coverage.hpp"
#include "read/file_reader.hpp"
#include "read/filter.hpp"
#include "read/loss.hpp"
#include "read/open_spans.hpp"
#include "read/run_tracker.hpp"
#include "summary/counter_summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// What the lines of the table are, beside phases.
struct Grouping {
    enum class By : std::uint8_t { phase, rank, host, step };
    By by = By::phase;
    std::int64_t window_steps = 1;  // By::step

    /// "phase", "rank", "host" or "step:N". Throws UsageError.
    [[nodiscard]] static Grouping parse(std::string_view text);
    [[nodiscard]] std::string name() const;
};

struct SummaryOptions {
    static constexpr std::uint64_t default_max_samples = 16'000'000;  // 512 MB at most

    Filter filter;
    AttemptChoice attempt;
    std::uint64_t max_samples = default_max_samples;
    Grouping grouping;
    bool wants_verdict = true;
    std::size_t threads = 1;           // for the phases and the verdict
    std::optional<double> peak_flops;  // of every rank's device, whatever its run row says

    [[nodiscard]] PartialScope scope() const;
};

/// The rows of one file.
class FileSummary final : public RowSink {
  public:
    FileSummary(const SummaryOptions& options, std::shared_ptr<SampleBudget> budget)
        : options_(options), budget_(std::move(budget)) {}
    // Nearly all rows are spans of the rank and the run that the row before was of.
    void take(const Row& row, std::uint64_t line) override {
        if (settled_ == nullptr || row.type != RowType::span || *row.rank != last_rank_) return take_slowly(row, line);
        settled_->series->add(row, *budget_);
        open_spans_.take(row, settled_->attempt, line);
    }

  private:
    friend class JobSummary;
    using RankSeries = std::map<int, RunSeries>;  // by index of the run in the file

    /// Where the rows of a rank go.
    struct RankPlace {
        int run = unknown_run;  // index of the run in the file
        std::int64_t attempt = 1;
        RunSeries* series = nullptr;  // nullptr: the attempt was not asked for
    };
    static constexpr int unknown_run = std::numeric_limits<int>::min();

    [[nodiscard]] bool chosen(std::int64_t attempt) const;
    void enter_rank(std::int64_t rank);
    void enter_run(RankPlace& place, std::int64_t rank, int run);
    void take_slowly(const Row& row, std::uint64_t line);
    void take_mark(const Row& row);

    const SummaryOptions& options_;
    std::shared_ptr<SampleBudget> budget_;
    RunTracker tracker_;
    std::map<std::int64_t, RankSeries> ranks_;
    std::unordered_map<std::int64_t, RankPlace> places_;
    RankPlace* last_place_ = nullptr;  // rows of a rank come together
    std::int64_t last_rank_ = 0;
    RankPlace* settled_ = nullptr;  // where all spans of the last rank go until a run row comes; nullptr: it depends
    OpenSpans open_spans_;
    std::map<std::string, MarkCount> marks_;
};

struct PhaseSummary {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
    std::uint64_t count = 0;
    std::uint64_t ranks = 0;
    double mean_ms = 0;
    double p50_ms = 0;
    double p90_ms = 0;
    double p99_ms = 0;
    double min_ms = 0;
    double max_ms = 0;
    double total_ms = 0;
    std::optional<double> share;
    std::int64_t slowest_rank = 0;
    std::optional<double> skew;
};

struct RunSummary {
    std::string run_id;
    std::int64_t attempt = 1;
    std::uint64_t ranks = 0;
    std::int64_t start_unix_ns = std::numeric_limits<std::int64_t>::max();
    std::optional<std::int64_t> first_step;
    std::optional<std::int64_t> last_step;
};

/// One phase of one rank, host or window of steps.
struct GroupSummary {
    std::int64_t first = 0;  // By::rank: the rank. By::step: the first step of the window
    std::int64_t last = 0;   // By::step: the last one
    std::string host;        // By::host; and of a rank the last one it was on
    PhaseSummary phase;
    double excess_ms = 0;                // of the median over the median of all groups' medians
    std::optional<double> median_ratio;  // of the same two
};

struct SummaryResult {
    InputCounts inputs;
    Coverage coverage;
    std::uint64_t duplicate_rows = 0;   // the same row in two files
    std::uint64_t superseded_rows = 0;  // of steps that a later attempt repeated
    bool approximate = false;           // beyond the budget: quantiles from histograms
    bool repeats_unresolved = false;    // and steps of several attempts that could not be told apart
    std::optional<std::int64_t> first_step;
    std::optional<std::int64_t> last_step;
    std::uint64_t steps = 0;
    std::optional<std::int64_t> stride;
    std::vector<PhaseSummary> phases;
    Grouping grouping;
    std::vector<GroupSummary> groups;  // ordered by group, then as the phases are
    std::vector<RunSummary> runs;
    std::uint64_t hosts = 0;
    Loss loss;
    std::vector<OpenSpan> open_spans;
    std::map<std::string, MarkCount> marks;
    std::vector<CounterSummary> counters;
    std::optional<MemorySummary> memory;  // none where no memory was counted
    std::optional<Verdict> verdict;       // none where none was asked for
};

class JobSummary {
  public:
    explicit JobSummary(SummaryOptions options)
        : options_(std::move(options)), budget_(std::make_shared<SampleBudget>(options_.max_samples)) {}

    [[nodiscard]] std::unique_ptr<FileSummary> new_file() const {
        return std::make_unique<FileSummary>(options_, budget_);
    }
    void add(FileSummary&& file);
    void add(JobParts&& parts);
    /// The scope of partial summaries, where there is nothing else.
    void adopt(const PartialScope& scope);
    void save(Output& output, const InputCounts& inputs);
    /// Call once. `visit` sees the parts once repeated steps are gone, and before grouping consumes them. Throws
    /// UsageError where the durations that a grouping needs are not kept.
    [[nodiscard]] SummaryResult finish(const std::function<void(const JobParts&)>& visit = {});

  private:
    void collect_runs(SummaryResult& result) const;
    void resolve_repeats(SummaryResult& result);
    void find_window(SummaryResult& result) const;
    [[nodiscard]] Verdict judge_job(const SummaryResult& result) const;

    SummaryOptions options_;
    std::shared_ptr<SampleBudget> budget_;
    JobParts parts_;
    std::uint64_t samples_ = 0;
    bool over_budget_ = false;
};

}  // namespace cep::tool
