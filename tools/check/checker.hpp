// SPDX-License-Identifier: Apache-2.0
//
// Checker: what `cep check` finds. Read file by file into FileCheck objects, joined by JobCheck.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "read/coverage.hpp"
#include "read/file_reader.hpp"
#include "read/loss.hpp"
#include "read/open_spans.hpp"
#include "read/run_tracker.hpp"
#include "stats/step_pattern.hpp"

namespace cep::tool {

/// From good to bad. `incomplete`: measurements are missing; `damaged`: something in the files cannot be trusted.
enum class Severity : std::uint8_t { fine, note, incomplete, damaged };
inline constexpr std::array<std::string_view, 4> severity_names = {"fine", "note", "incomplete", "damaged"};

struct Finding {
    Severity severity = Severity::note;
    std::string code;  // stable, for programs: "cut_off", "rows_skipped", …
    std::string message;
    std::uint64_t line = 0;  // 0: the whole file
};

struct AttemptCheck {
    std::string run_id;
    std::int64_t attempt = 1;
    std::uint64_t steps = 0;
    std::optional<std::int64_t> first_step;
    std::uint64_t repeated_steps = 0;  // steps that earlier attempts had too
};

/// What is known about one file after it is read.
struct FileVerdict {
    FileReport report;
    Severity severity = Severity::fine;
    std::vector<Finding> findings;
    std::vector<std::int64_t> ranks;
    std::vector<AttemptCheck> attempts;  // in the order of their starts
    std::optional<std::int64_t> first_step;
    std::optional<std::int64_t> last_step;
    std::uint64_t steps = 0;
    std::optional<std::int64_t> stride;
    MissingSteps missing_steps;
};

/// The rows of one file.
class FileCheck : public RowSink {
  public:
    explicit FileCheck(const InputFile& file) : name_rank_(file.name_rank) {}
    void take(const Row& row, std::uint64_t line) override;

  private:
    friend class JobCheck;

    struct StepOfRun {
        std::int64_t step;
        int run;

        friend bool operator==(const StepOfRun&, const StepOfRun&) = default;
    };
    struct LastSpan {
        StepOfRun of;
        std::optional<std::int64_t> start_ns;
    };
    struct FirstStart {
        std::int64_t step;
        std::int64_t start_ns;
    };
    struct RankState {
        std::map<int, std::set<std::int64_t>> steps;  // by index of the run in the file
        std::map<int, FirstStart> first_starts;
        std::map<int, StatsRow> stats;
        std::map<int, std::optional<std::int64_t>> pids;
        std::unordered_map<std::string, LastSpan> last_spans;  // by phase
        std::optional<StepOfRun> last_noted;                   // in `steps`
        int current_run = RunTracker::no_run;
        std::uint64_t rows = 0;
        std::uint64_t times_back = 0;  // how often the step of a phase went back within a run
        std::uint64_t back_line = 0;
        std::int64_t back_from = 0;
        std::int64_t back_to = 0;
        std::uint64_t clock_back_line = 0;  // 0: the clock never went back
        std::int64_t clock_back_ns = 0;
        std::uint64_t interleaved_line = 0;  // 0: not
    };
    using AttemptKey = std::tuple<RunOrder, std::string, std::int64_t>;  // start, run id, attempt
    using StepsOfAttempts = std::map<AttemptKey, std::set<std::int64_t>>;

    RankState& state_of(std::int64_t rank);
    void take_run(const Row& row, const RunTracker::Place& place, RankState& state, std::uint64_t line) const;
    void take_stats(const Row& row, int run, RankState& state, std::uint64_t line) const;
    static void take_span(const Row& row, int run, RankState& state, std::uint64_t line);
    [[nodiscard]] std::int64_t attempt_of(std::int64_t rank, int run) const;

    FileVerdict finish(FileReport report);
    void find_damage(FileVerdict& verdict) const;
    void find_odd_rows(FileVerdict& verdict) const;
    void find_other_ranks(FileVerdict& verdict) const;
    void find_order(FileVerdict& verdict) const;
    void find_runs(FileVerdict& verdict) const;
    [[nodiscard]] bool attempts_are_numbered() const;
    [[nodiscard]] StepsOfAttempts steps_of_attempts() const;
    void find_attempts(FileVerdict& verdict) const;
    void find_gaps(FileVerdict& verdict, const std::set<std::int64_t>& steps) const;
    void find_loss(FileVerdict& verdict) const;
    void find_open_spans(FileVerdict& verdict) const;

    std::optional<std::int64_t> name_rank_;
    RunTracker tracker_;
    OpenSpans open_spans_;
    std::map<std::int64_t, RankState> ranks_;
    std::optional<std::int64_t> last_rank_;
    RankState* last_state_ = nullptr;
    std::uint64_t odd_rows_ = 0;
    std::uint64_t odd_line_ = 0;
    std::string odd_key_;
};

struct CheckResult {
    InputCounts inputs;
    Coverage coverage;
    Severity severity = Severity::fine;
    std::vector<FileVerdict> files;
    std::vector<Finding> findings;  // about the job, not one file
    Loss loss;
};

class JobCheck {
  public:
    void add(FileCheck&& file, FileReport report);
    /// Call once.
    [[nodiscard]] CheckResult finish(const InputCounts& inputs);

  private:
    using RunOfRank = std::tuple<std::string, std::int64_t, std::int64_t>;  // run id, attempt, rank
    using StepOfRun = std::tuple<std::string, std::int64_t, std::int64_t>;  // run id, attempt, step
    using StartOfRank = std::pair<std::int64_t, std::int64_t>;              // start_ns, rank
    struct RanksOfRun {
        std::int64_t start_unix_ns = INT64_MIN;
        std::set<std::int64_t> ranks;
    };

    void note_run(const RunInfo& run, std::int64_t rank, const std::string& path);

    void find_missing_ranks(CheckResult& result) const;
    void find_repeated_ranks(CheckResult& result) const;
    void find_early_ends(CheckResult& result) const;
    void find_left_ranks(CheckResult& result) const;
    void find_clocks_apart(CheckResult& result) const;

    CoverageCollector coverage_;
    Loss loss_;
    std::vector<FileVerdict> files_;
    std::map<RunOfRank, std::vector<std::string>> files_of_runs_;
    std::map<std::int64_t, std::int64_t> last_steps_;  // by rank
    std::map<std::string, RanksOfRun> ranks_of_runs_;  // by run id
    std::map<StepOfRun, std::vector<StartOfRank>> first_starts_;
};

}  // namespace cep::tool
