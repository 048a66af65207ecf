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
    int index = -1;  // in the file; of rows before any run row −1
    std::string run_id;
    bool is_of_launcher = false;  // the library made the id of the process that started the trainer
    bool in_turn = false;         // with another start, as if two processes wrote the file at a time
    std::optional<std::int64_t> world_size;
    std::optional<std::int64_t> start_ns;  // without a run row, of the first row
    std::optional<std::int64_t> first_step;

    [[nodiscard]] bool has_run_row() const { return index >= 0; }
};

class StartNotes;

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
    [[nodiscard]] bool has_all_of(std::size_t file) const { return files_[file].has_all; }
    /// Whether nothing of the file belongs to it, but to other runs.
    [[nodiscard]] bool has_none_of(std::size_t file) const { return files_[file].has_none; }
    [[nodiscard]] bool has(std::size_t file, std::int64_t rank, int index) const;
    /// All runs of the inputs, in the order of their last starts.
    [[nodiscard]] const std::vector<InputRun>& runs() const { return runs_; }
    /// Names the run and the others.
    void describe(InputCounts& counts) const;

  private:
    /// What of a file belongs to the run.
    struct FileSelection {
        bool has_all = true;
        bool has_none = false;
        std::unordered_map<std::int64_t, std::vector<bool>> starts;  // by rank and 1 + index; where it has some
    };

    [[nodiscard]] std::size_t choose() const;
    void select_starts(const std::vector<std::size_t>& run_of_start, std::size_t chosen);

    RunChoice choice_;
    std::vector<TrainerStart> starts_;  // until it is settled
    std::vector<FileSelection> files_;  // by file
    std::vector<InputRun> runs_;
    std::size_t others_ = 0;  // runs that are left out
    std::string name_;
    bool is_settled_ = false;
    bool has_too_many_ = false;
};

}  // namespace cep::tool
