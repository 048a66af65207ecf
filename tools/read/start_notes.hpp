// SPDX-License-Identifier: Apache-2.0
//
// Start notes: the starts of the trainer in one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "read/row.hpp"
#include "read/run_choice.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

/// Takes them while the file is read.
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
    void note_run(const RunInfo& run, const RunTracker::Assignment& assigned, RankStarts& rank);
    static void note_step(const Row& row, int run, RankStarts& rank);
    void set_noted(std::int64_t rank, bool is_noted);

    RunTracker tracker_;
    std::unordered_map<std::int64_t, RankStarts> ranks_;
    std::vector<bool> noted_;  // by rank: nothing is missing until the next run row
    bool has_too_many_ = false;
};

}  // namespace cep::tool
