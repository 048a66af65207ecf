// SPDX-License-Identifier: Apache-2.0
//
// Summary: what `cep summarize` says about a job. Read file by file into FileSummary objects, joined by JobSummary.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "coverage.hpp"
#include "file_reader.hpp"
#include "filter.hpp"
#include "loss.hpp"
#include "open_spans.hpp"
#include "phase_series.hpp"
#include "run_tracker.hpp"

namespace cep::analysis {

struct SummaryOptions {
    static constexpr std::uint64_t default_max_samples = 16'000'000;  // 256 MB

    Filter filter;
    AttemptChoice attempt;
    std::uint64_t max_samples = default_max_samples;
};

struct MarkCount {
    std::set<std::int64_t> ranks;
    std::set<std::int64_t> steps;
    std::uint64_t count = 0;
};

/// The rows of one file.
class FileSummary : public RowSink {
  public:
    FileSummary(const SummaryOptions& options, std::shared_ptr<SampleBudget> budget)
        : options_(options), budget_(std::move(budget)) {}
    void take(const Row& row, std::uint64_t line) override;

  private:
    friend class JobSummary;
    using RankSeries = std::map<int, RunSeries>;  // by index of the run in the file

    [[nodiscard]] bool chosen(std::int64_t attempt) const;
    RunSeries& series_of(std::int64_t rank, int run);

    const SummaryOptions& options_;
    std::shared_ptr<SampleBudget> budget_;
    RunTracker tracker_;
    std::map<std::int64_t, RankSeries> ranks_;
    RunSeries* last_series_ = nullptr;  // rows of a rank and run come together
    std::int64_t last_rank_ = 0;
    int last_run_ = 0;
    std::optional<std::int64_t> last_seen_rank_;
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
    std::vector<RunSummary> runs;
    std::uint64_t hosts = 0;
    Loss loss;
    std::vector<OpenSpan> open_spans;
    std::map<std::string, MarkCount> marks;
};

class JobSummary {
  public:
    explicit JobSummary(SummaryOptions options)
        : options_(std::move(options)), budget_(std::make_shared<SampleBudget>(options_.max_samples)) {}

    [[nodiscard]] std::unique_ptr<FileSummary> new_file() const {
        return std::make_unique<FileSummary>(options_, budget_);
    }
    void add(FileSummary&& file);
    /// Call once.
    [[nodiscard]] SummaryResult finish();

  private:
    void collect_runs(SummaryResult& result) const;
    void resolve_repeats(SummaryResult& result);
    void find_window(SummaryResult& result) const;

    SummaryOptions options_;
    std::shared_ptr<SampleBudget> budget_;
    std::map<std::int64_t, std::vector<RunSeries>> ranks_;
    std::vector<OpenSpan> open_spans_;
    std::map<std::string, MarkCount> marks_;
    CoverageCollector coverage_;
};

}  // namespace cep::analysis
