// SPDX-License-Identifier: Apache-2.0
//
// Run choice: which starts of the trainer are one run, and the run that a command is about. cep(1) says what a run is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "read/coverage.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

struct RunChoice {
    enum class Mode : std::uint8_t { latest, all, named };
    Mode mode = Mode::latest;
    std::string name;  // Mode::named

    /// "latest", "all" or the name of a run. Throws UsageError.
    [[nodiscard]] static RunChoice parse(std::string_view text);
};

/// A start of the trainer, and where it is.
struct TrainerStart : RunStart {
    std::size_t file;
    std::int64_t rank;
    int index;     // in the file; RunOfRow::none for rows before any run row
    bool in_turn;  // with another start, as if two processes wrote the file at a time

    [[nodiscard]] bool has_run_row() const { return index != RunOfRow::none; }
};

/// What of a file belongs to the run.
struct FileSelection {
    bool has_some = false;
    bool lacks_some = false;
    std::unordered_map<std::int64_t, std::vector<bool>> starts{};  // by rank and 1 + index; where it lacks some

    [[nodiscard]] bool has_none() const { return lacks_some && !has_some; }
    [[nodiscard]] bool has(std::int64_t rank, int index) const;
};

/// The run that a command is about. The first reading of the inputs finds it; further readings keep to it.
class RunSelection {
  public:
    static constexpr std::size_t max_starts = std::size_t{1} << 20;  // beyond it, all inputs are one run
    static constexpr int max_starts_of_rank = 1 << 16;               // in a file; likewise

    explicit RunSelection(RunChoice choice = {}) : choice_(std::move(choice)) {}

    /// Those of the next file.
    void add(RunTracker&& runs);
    /// After the last file. Throws UsageError where there is no run of the name that was asked for.
    void settle();

    [[nodiscard]] bool is_settled() const { return is_settled_; }
    /// Whether all rows of all files belong to the run.
    [[nodiscard]] bool has_all() const { return others_ == 0; }
    /// Once it is settled.
    [[nodiscard]] const FileSelection& of_file(std::size_t file) const { return files_[file]; }
    /// Throws UsageError for a file of the run that can be read only once.
    void check_reading_again(const InputSet& set) const;
    /// All runs of the inputs, in the order of their last starts.
    [[nodiscard]] const std::vector<InputRun>& runs() const { return runs_; }
    /// Names the run and the others.
    void describe(InputCounts& counts) const;

  private:
    [[nodiscard]] std::vector<TrainerStart> all_starts() const;
    [[nodiscard]] std::size_t choose() const;
    void select_starts(const std::vector<TrainerStart>& starts, const std::vector<std::size_t>& run_of_start,
                       std::size_t chosen);

    RunChoice choice_;
    std::vector<RunTracker> trackers_;  // by file, until it is settled
    std::size_t starts_ = 0;            // that these have
    std::vector<FileSelection> files_;  // by file
    std::vector<InputRun> runs_;
    std::size_t others_ = 0;  // runs that are left out
    std::string name_;
    bool is_settled_ = false;
    bool has_too_many_ = false;
};

}  // namespace cep::tool
