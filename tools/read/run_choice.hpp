// SPDX-License-Identifier: Apache-2.0
//
// Run choice: which starts of the trainer are one run, and the run that a command is about. cep(1) says what a run is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "read/coverage.hpp"
#include "read/inputs.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

struct RunChoice {
    enum class Mode : std::uint8_t { latest, all, named };
    Mode mode = Mode::latest;
    std::string name;  // Mode::named

    /// "latest", "all" or the name of a run. Throws UsageError.
    [[nodiscard]] static RunChoice parse(std::string_view text);
};

/// One start of the trainer on one rank, as one file has it.
struct TrainerStart {
    std::size_t file = 0;
    std::int64_t rank = 0;
    int index = RunTracker::no_run;  // in the file; no_run: rows before any run row
    std::string run_id;
    bool is_of_launcher = false;  // the library made the id of the process that started the trainer
    bool in_turn = false;         // with another start, as if two processes wrote the file at a time
    std::optional<std::int64_t> world_size;
    std::optional<std::int64_t> start_ns;  // without a run row, of the first row
    std::optional<std::int64_t> first_step;

    [[nodiscard]] bool has_run_row() const { return index != RunTracker::no_run; }
};

/// Notes the starts in one file while it is read.
class StartNotes {
  public:
    void take(const Row& row) {
        if (has_too_many_ || !row.rank || (row.type != RowType::run && is_noted(*row.rank))) return;
        note(row);
    }
    /// Once, after the last row.
    [[nodiscard]] std::vector<TrainerStart> finish();
    /// More than max_starts of one rank: none are kept.
    [[nodiscard]] bool has_too_many() const { return has_too_many_; }

    static constexpr std::size_t max_starts = std::size_t{1} << 16;  // of one rank

  private:
    struct RankStarts {
        std::vector<TrainerStart> starts;    // by index
        std::optional<TrainerStart> before;  // any run row
        std::size_t without_step = 0;        // of starts
        bool in_turn = false;                // a start goes on behind a later one
    };

    [[nodiscard]] bool is_noted(std::int64_t rank) const {
        return rank >= 0 && static_cast<std::uint64_t>(rank) < noted_.size() && noted_[static_cast<std::size_t>(rank)];
    }
    void note(const Row& row);
    void note_run(const RunInfo& run, const RunTracker::Place& place, RankStarts& rank);
    static void note_step(const Row& row, int run, RankStarts& rank);
    void set_noted(std::int64_t rank, bool is_noted);

    RunTracker tracker_;
    std::unordered_map<std::int64_t, RankStarts> ranks_;
    std::vector<bool> noted_;  // by rank: nothing is missing until the next run row
    bool has_too_many_ = false;
};

/// The run that a command is about. The first reading of the inputs finds it; further readings keep to it.
class RunSelection {
  public:
    static constexpr std::size_t max_starts = std::size_t{1} << 20;  // beyond it, all inputs are one run

    explicit RunSelection(RunChoice choice = {}) : choice_(std::move(choice)) {}

    /// Those of the next file.
    void add(StartNotes& notes);
    /// After the last file. Throws UsageError where there is no run of the name that was asked for.
    void settle();

    [[nodiscard]] bool is_settled() const { return is_settled_; }
    /// Whether all rows of all files belong to the run.
    [[nodiscard]] bool has_all() const { return others_ == 0; }
    [[nodiscard]] bool has_all_of(std::size_t file) const { return parts_[file].has_all; }
    /// Whether nothing of the file belongs to it, but to other runs.
    [[nodiscard]] bool has_none_of(std::size_t file) const { return parts_[file].has_none; }
    [[nodiscard]] bool has(std::size_t file, std::int64_t rank, int index) const;
    /// All runs of the inputs, in the order of their last starts.
    [[nodiscard]] const std::vector<InputRun>& runs() const { return runs_; }
    /// Names the run and the others.
    void describe(InputCounts& counts) const;

  private:
    /// What of a file belongs to the run.
    struct FilePart {
        bool has_all = true;
        bool has_none = false;
        std::unordered_map<std::int64_t, std::vector<bool>> starts;  // by rank and 1 + index; where it has some
    };

    [[nodiscard]] std::size_t choose() const;
    void take_part(const std::vector<std::size_t>& run_of_start, std::size_t chosen);

    RunChoice choice_;
    std::vector<TrainerStart> starts_;  // until it is settled
    std::vector<FilePart> parts_;       // by file
    std::vector<InputRun> runs_;
    std::size_t others_ = 0;  // runs that are left out
    std::string name_;
    bool is_settled_ = false;
    bool has_too_many_ = false;
};

/// The rows of the run in one file.
class RunGate {
  public:
    RunGate(const RunSelection& selection, std::size_t file) : selection_(selection), file_(file) {}

    [[nodiscard]] bool admits(const Row& row) {
        if (!row.rank) return true;
        if (settled_ && row.type != RowType::run && row.rank == last_rank_) return last_admitted_;
        const int run = tracker_.observe(row).run;
        settled_ = row.type != RowType::run && tracker_.is_settled();
        last_rank_ = row.rank;
        return last_admitted_ = selection_.has(file_, *row.rank, run);
    }

  private:
    const RunSelection& selection_;
    std::size_t file_;
    RunTracker tracker_;
    std::optional<std::int64_t> last_rank_;
    bool settled_ = false;  // all rows of the rank belong to one run until the next run row
    bool last_admitted_ = false;
};

}  // namespace cep::tool
