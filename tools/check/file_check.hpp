// SPDX-License-Identifier: Apache-2.0
//
// File check: what `cep check` finds in one file.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "read/coverage.hpp"
#include "read/file_report.hpp"
#include "read/inputs.hpp"
#include "read/open_spans.hpp"
#include "read/row.hpp"
#include "read/run_tracker.hpp"
#include "stats/step_pattern.hpp"
#include "stats/step_set.hpp"

namespace cep::tool {

/// Looks at a share of the spans that is chosen by a hash of what they are: of a span and its repetition both or
/// neither. The share is an eighth, and half as large each time that it does not fit.
class RepeatedRows {
  public:
    /// A span with a start and a `seq`; others may be equal without being the same. `run`: its index in the file.
    void take(const Row& row, int run, std::uint64_t line);
    /// An estimate.
    [[nodiscard]] std::uint64_t count() const { return seen_again_ * (mask_ + 1); }
    /// The line of the first one that was found.
    [[nodiscard]] std::uint64_t line() const { return line_; }

  private:
    static constexpr std::size_t most_kept = std::size_t{1} << 16;

    void leave_half();

    std::uint64_t mask_ = 7;
    std::unordered_set<std::uint64_t> kept_;
    std::uint64_t seen_again_ = 0;
    std::uint64_t line_ = 0;
};

/// From good to bad. `incomplete`: measurements are missing; `damaged`: something in the files cannot be trusted.
enum class Severity : std::uint8_t { fine, note, incomplete, damaged };
inline constexpr std::array<std::string_view, 4> severity_names = {"fine", "note", "incomplete", "damaged"};

[[nodiscard]] constexpr std::string_view severity_name(Severity severity) {
    return severity_names[static_cast<std::size_t>(severity)];
}

struct Remark {
    Severity severity = Severity::note;
    std::string code;  // stable, for programs: "cut_off", "rows_skipped", …
    std::string message;
    std::uint64_t line = 0;  // 0: the whole file
};

/// Remarks in the order in which they are made. Of one code it keeps max_of_code, and counts the others.
class Remarks {
  public:
    static constexpr std::uint64_t max_of_code = 100;

    void add(Severity severity, std::string_view code, std::string message, std::uint64_t line = 0);
    void note(std::string_view code, std::string message, std::uint64_t line = 0) {
        add(Severity::note, code, std::move(message), line);
    }
    /// Calls `describe` for the message only if it is kept.
    template <std::invocable Describe>
    void note(std::string_view code, const Describe& describe) {
        if (count(Severity::note, code)) findings_.push_back({Severity::note, std::string(code), describe(), 0});
    }
    /// With a last finding for each code that has more.
    [[nodiscard]] std::vector<Remark> finish();

  private:
    struct Counted {
        Severity severity = Severity::fine;
        std::uint64_t count = 0;
    };

    /// Returns whether the finding is kept.
    bool count(Severity severity, std::string_view code);

    std::vector<Remark> findings_;
    std::map<std::string, Counted> counts_;
};

[[nodiscard]] Severity worst_of(const std::vector<Remark>& findings);

struct AttemptCheck {
    std::string run_id;
    std::int64_t attempt = 1;
    std::uint64_t steps = 0;
    std::optional<std::int64_t> first_step;
    std::uint64_t repeated_steps = 0;  // steps that earlier attempts had too
};

/// Identifies an attempt of a run. Compares the first bytes of the id as one number first: most ids differ there.
struct AttemptKey {
    AttemptKey(std::string_view id, std::int64_t number);

    friend auto operator<=>(const AttemptKey&, const AttemptKey&) = default;

    std::uint64_t id_begin = 0;
    std::string_view run_id;
    std::int64_t attempt = 1;
};

/// What is known about one file after it is read.
struct FileVerdict {
    FileReport report;
    Severity severity = Severity::fine;
    std::vector<Remark> findings;
    std::vector<std::int64_t> ranks;
    std::vector<AttemptCheck> attempts;  // in the order of their starts, not more than FileCheck::max_attempts
    std::optional<std::int64_t> first_step;
    std::optional<std::int64_t> last_step;
    std::uint64_t steps = 0;
    std::optional<std::int64_t> stride;
    MissingSteps missing_steps;
};

/// The rows of one file.
class FileCheck : public RowSink {
  public:
    static constexpr std::size_t max_phases = std::size_t{1} << 20;  // of a rank, whose order is checked

    static constexpr std::size_t max_attempts = 10'000;  // that are listed

    explicit FileCheck(const InputFile& file) : name_rank_(file.name_rank) {}
    void take(const Row& row, RunOfRow run, std::uint64_t line) override;
    void end(const RunTracker& runs) override;

  private:
    friend class JobCheck;

    /// What a rank recorded in one run.
    struct RunState {
        StepSet steps;
        std::optional<std::int64_t> last_new_step;
        std::int64_t first_step = 0;  // with a start
        std::optional<std::int64_t> first_start_ns;
        std::unique_ptr<StatsRow> stats;  // the last
        std::optional<std::int64_t> pid;
        bool has_run_row = false;
    };
    /// How often something was wrong, and where first: at this line, from a step or time to another.
    struct OrderError {
        std::uint64_t count = 0;
        std::uint64_t line = 0;
        std::int64_t from = 0;
        std::int64_t to = 0;

        void add(std::uint64_t at_line, std::int64_t at_from = 0, std::int64_t at_to = 0) {
            if (count++ == 0) std::tie(line, from, to) = std::tie(at_line, at_from, at_to);
        }
    };
    /// What is wrong with the order of a rank's rows.
    struct OrderErrors {
        OrderError steps_back;   // of a phase within a run
        OrderError clock_back;   // within a run
        OrderError starts_back;  // a span before an earlier one of its stream
        OrderError interleaved;  // rows of two processes
    };
    /// The last span of a phase.
    struct LastSpan {
        std::int64_t step = 0;
        std::int64_t seq = -1;     // -1: not given
        std::int64_t stream = -1;  // -1: not given
        std::optional<std::int64_t> start_ns;
        int run = RunOfRow::none;
        std::uint32_t run_changes = 0;  // of the rank, when the span was written
    };
    struct RankState {
        std::vector<RunState> runs;  // by index of the run in the file, and 1: [0] has the rows before any run row
        std::unique_ptr<OrderErrors> errors;
        std::map<std::string, LastSpan, std::less<>> last_spans;  // by phase
        int current_run = RunOfRow::none;
        std::uint32_t run_changes = 0;
        std::uint64_t rows = 0;
        bool has_full_spans = false;  // as the library writes them, not as other profilers do

        RunState& run(int index);
        [[nodiscard]] bool has_run_rows() const {
            return std::any_of(runs.begin(), runs.end(), [](const RunState& run) { return run.has_run_row; });
        }
        OrderErrors& order_errors();
    };

    RankState& state_of(std::int64_t rank);
    void take_run(const Row& row, RunOfRow assigned, RankState& state, std::uint64_t line);
    void take_stride_change(const StrideChange& change);
    static void take_stats(const Row& row, RunOfRow assigned, RankState& state, std::uint64_t line);
    void take_span(const Row& row, int run, RankState& state, std::uint64_t line);
    static void take_step(const Row& row, RunState& run);
    static bool check_order(const LastSpan& last, const LastSpan& now, RankState& state, std::uint64_t line);

    /// A run row's start on one rank, or on all that took part in the attempt.
    struct Attempt {
        AttemptKey key;
        RunOrder order;  // of the rank that was first
        StepSet steps;
    };
    using RankOfFile = std::pair<std::int64_t, const RankState*>;

    /// Calls `use(start, recorded)` for each run row's start, in the order of the file.
    template <typename Use>
    void for_each_start(const RankOfFile& of, Use use) const {
        const std::vector<RunStart>& starts = runs_->runs(of.first);
        for (std::size_t i = 1; i < of.second->runs.size(); ++i)
            if (of.second->runs[i].has_run_row) use(starts[i - 1], of.second->runs[i]);
    }
    FileVerdict finish(FileReport report);
    void find_damage(const FileReport& report);
    void find_odd_rows(const FileReport& report);
    void find_repeated_rows();
    void find_other_ranks();
    void find_order();
    void find_runs();
    void find_missing_run_rows();
    static void join_equal(std::vector<Attempt>& attempts);
    [[nodiscard]] std::vector<Attempt> join_ranks() const;
    void find_attempts(FileVerdict& verdict);
    void find_gaps(FileVerdict& verdict, const std::vector<std::int64_t>& steps);
    void find_loss();
    void find_open_spans();

    std::optional<std::int64_t> name_rank_;
    const RunTracker* runs_ = nullptr;  // at the end
    OpenSpans open_spans_;
    RepeatedRows repeated_rows_;
    std::unordered_map<std::int64_t, RankState> ranks_;
    CoverageCollector coverage_;
    std::int64_t schema_ = 0;                     // the highest of its runs
    std::int64_t clock_error_ns_ = 0;             // the largest of its runs
    std::set<std::int64_t> strides_;              // of its runs
    std::optional<StrideChange> stride_changes_;  // of all its ranks
    std::size_t phases_ = 0;                      // of all its ranks, whose last spans are known
    std::vector<RankOfFile> in_order_;            // when all rows are read
    std::optional<std::int64_t> last_rank_;
    RankState* last_state_ = nullptr;
    std::uint64_t odd_rows_ = 0;
    std::uint64_t odd_line_ = 0;
    std::string odd_key_;
    bool has_too_many_phases_ = false;
    Remarks findings_;
};

}  // namespace cep::tool
