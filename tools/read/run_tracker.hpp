// SPDX-License-Identifier: Apache-2.0
//
// Runs: assigns each row to a start of the trainer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "read/row.hpp"

namespace cep::tool {

/// Orders the runs of a rank in time.
struct RunOrder {
    std::int64_t start_unix_ns = INT64_MIN;
    std::int64_t attempt = 1;

    friend auto operator<=>(const RunOrder&, const RunOrder&) = default;
};

/// A start of the trainer on one rank, as one file has it. A file may have a million.
struct RunStart {
    std::string_view run_id;  // belongs to the tracker
    std::int64_t attempt = 1;
    std::optional<std::int64_t> start_unix_ns;  // of rows before any run row, of the first that has a step
    std::optional<std::int64_t> clock_error_ns;
    std::optional<std::int64_t> world_size;
    std::optional<std::int64_t> first_step;
    bool is_of_launcher = false;  // the library made the id of the process that started the trainer
};

[[nodiscard]] RunOrder order_of(const RunStart& run);
[[nodiscard]] bool same_run(const RunInfo& a, const RunInfo& b);

/// The start of the trainer that a row belongs to. So small that it is passed in registers.
struct RunOfRow {
    static constexpr int none = -1;

    const RunStart* start = nullptr;  // nullptr for none; valid until the next row
    int index = none;                 // into RunTracker::runs()
    bool is_new = false;              // this run row begins a run not seen before in the file
    bool is_returning = false;        // this run row repeats a run that another run row has followed since
    bool is_ignored = false;          // a run row of one run too many; `index` is that of the row before

    [[nodiscard]] std::int64_t attempt() const { return start == nullptr ? 1 : start->attempt; }
};

/// Attributes the rows of one file to runs, rank by rank.
///
/// In a file as the library writes it, a row belongs to the last run row of its rank before it. In a merged file all
/// run rows come first; of run rows with no other row between them, the last one that started before a row is its run.
class RunTracker {
  public:
    static constexpr std::size_t max_runs = std::size_t{1} << 19;  // of all ranks; run rows of more are ignored

    /// Takes the rows that have a rank, in the file's order.
    RunOfRow observe(const Row& row) {
        if (last_ == nullptr || last_rank_ != *row.rank) {
            last_ = &ranks_[*row.rank];
            last_rank_ = *row.rank;
        }
        if (row.type == RowType::run) return observe_run(*last_, *row.rank, *row.run);
        last_->other_rows_since = true;
        const bool one_run = last_->block_end - last_->block_begin == 1;
        const int index = one_run ? static_cast<int>(last_->block_begin) : choose(*last_, row);
        if (index == RunOfRow::none || last_->without_step > 0) [[unlikely]]
            note_step(*last_, index, row);
        return {index == RunOfRow::none ? nullptr : &last_->runs[static_cast<std::size_t>(index)], index};
    }
    [[nodiscard]] const std::vector<RunStart>& runs(std::int64_t rank) const;
    [[nodiscard]] bool has_too_many_runs() const { return has_too_many_runs_; }
    /// Calls `use(rank, index, start, in_turn)` for each start; the index is RunOfRow::none for that of rows with a
    /// step before any run row. `in_turn`: starts of the rank follow each other as if two processes wrote the file at a
    /// time.
    template <typename Use>
    void for_each_start(Use use) const {
        for (const auto& [rank, of_rank] : ranks_) {
            if (of_rank.before) use(rank, RunOfRow::none, *of_rank.before, of_rank.in_turn);
            for (std::size_t i = 0; i < of_rank.runs.size(); ++i)
                use(rank, static_cast<int>(i), of_rank.runs[i], of_rank.in_turn);
        }
    }

  private:
    /// The last run of a block that had started by `time_ns`.
    struct Started {
        std::int64_t attempt = 0;  // among the runs of this attempt only; 0 in a list of all
        std::int64_t time_ns = 0;
        std::size_t run = 0;
    };
    /// The runs of a block in the order of their starts.
    struct Block {
        std::vector<Started> started;
        std::vector<Started> started_by_attempt;
    };
    struct RankRuns {
        std::vector<RunStart> runs;
        std::size_t block_begin = 0;  // runs since here had no other row between them
        std::size_t block_end = 0;
        bool other_rows_since = false;
        bool in_turn = false;
        std::size_t without_step = 0;    // of runs
        std::optional<RunStart> before;  // any run row
        std::unique_ptr<Block> block;    // where rows had to be assigned to one of several runs
    };

    /// A run of any rank.
    struct Known {
        const RankRuns* rank = nullptr;
        std::uint32_t index = 0;  // into the runs of the rank
        std::uint32_t hash = 0;
    };
    /// Of the hash table of runs, with linear probing. 0: empty. Else its lower bits are an index into known_, plus 1,
    /// and its upper bits are those of the run's hash. The table of half a million runs stays in the cache.
    using Slot = std::uint32_t;
    static constexpr int number_bits = 20;
    static_assert(max_runs < Slot{1} << number_bits);

    /// The slot of the run that is_wanted(), or an empty one.
    template <typename IsWanted>
    Slot& find_slot(std::uint32_t hash, IsWanted is_wanted);
    [[nodiscard]] const Known& known(Slot slot) const { return known_[(slot & ((Slot{1} << number_bits) - 1)) - 1]; }
    void make_room();
    std::string_view keep_id(std::string_view run_id);
    RunOfRow observe_run(RankRuns& rank, std::int64_t number, const RunInfo& run);
    static RunOfRow repeat_run(RankRuns& rank, std::size_t index, const RunInfo& run);
    static std::unique_ptr<Block> sort_block(const RankRuns& rank);
    static int choose(RankRuns& rank, const Row& row);
    static void note_step(RankRuns& rank, int index, const Row& row);

    std::unique_ptr<std::pmr::monotonic_buffer_resource> ids_ = std::make_unique<std::pmr::monotonic_buffer_resource>();
    std::vector<Known> known_;  // of all ranks
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    bool has_too_many_runs_ = false;
    std::unordered_map<std::int64_t, RankRuns> ranks_;
    std::int64_t last_rank_ = 0;
    RankRuns* last_ = nullptr;
};

}  // namespace cep::tool
