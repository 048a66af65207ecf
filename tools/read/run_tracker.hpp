// SPDX-License-Identifier: Apache-2.0
//
// Runs: assigns each row to a start of the trainer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
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

/// What tells the runs of a rank apart. A file may have a million runs.
struct RunStart {
    std::string_view run_id;  // belongs to the tracker
    std::int64_t attempt = 1;
    std::optional<std::int64_t> start_unix_ns;
    std::optional<std::int64_t> clock_error_ns;
};

[[nodiscard]] RunOrder order_of(const RunStart& run);
[[nodiscard]] bool same_run(const RunInfo& a, const RunInfo& b);

/// Attributes the rows of one file to runs, rank by rank.
///
/// In a file as the library writes it, a row belongs to the last run row of its rank before it. In a merged file all
/// run rows come first; of run rows with no other row between them, the last one that started before a row is its run.
class RunTracker {
  public:
    static constexpr int no_run = -1;
    static constexpr std::size_t max_runs = std::size_t{1} << 19;  // of all ranks; run rows of more are ignored

    /// The run of a row.
    struct Assignment {
        int run = no_run;        // index into runs(rank)
        bool new_run = false;    // this run row begins a run not seen before in the file
        bool returning = false;  // this run row repeats a run that another run row has followed since
        bool ignored = false;    // a run row of one run too many; `run` is that of the row before
    };

    /// Rows must come in the file's order.
    Assignment observe(const Row& row) {
        const std::int64_t rank = row.rank.value_or(0);
        if (last_ == nullptr || last_rank_ != rank) {
            last_ = &ranks_[rank];
            last_rank_ = rank;
        }
        if (row.type == RowType::run) return observe_run(*last_, rank, *row.run);
        last_->other_rows_since = true;
        const bool one_run = last_->block_end - last_->block_begin == 1;
        return {one_run ? static_cast<int>(last_->block_begin) : choose(*last_, row)};
    }
    /// After a row that was no run row: whether all rows of its rank up to the next run row belong to the same run.
    [[nodiscard]] bool is_settled() const { return last_->block_end - last_->block_begin <= 1; }
    [[nodiscard]] const std::vector<RunStart>& runs(std::int64_t rank) const;
    /// 1 for no_run.
    [[nodiscard]] std::int64_t attempt_of(std::int64_t rank, int run) const {
        return run == no_run ? 1 : runs(rank)[static_cast<std::size_t>(run)].attempt;
    }
    [[nodiscard]] bool has_too_many_runs() const { return has_too_many_runs_; }

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
        std::unique_ptr<Block> block;  // where rows had to be assigned to one of several runs
    };

    struct RunKey {
        std::int64_t rank;
        std::int64_t attempt;
        std::string run_id;

        friend bool operator==(const RunKey&, const RunKey&) = default;
    };
    struct HashRun {
        std::size_t operator()(const RunKey& key) const;
    };

    Assignment observe_run(RankRuns& rank, std::int64_t number, const RunInfo& run);
    static Assignment repeat_run(RankRuns& rank, std::size_t index, const RunInfo& run);
    static std::unique_ptr<Block> sort_block(const RankRuns& rank);
    static int choose(RankRuns& rank, const Row& row);

    std::unordered_map<RunKey, std::uint32_t, HashRun> indices_;  // into the runs of the rank
    bool has_too_many_runs_ = false;
    std::unordered_map<std::int64_t, RankRuns> ranks_;
    std::int64_t last_rank_ = 0;
    RankRuns* last_ = nullptr;
};

}  // namespace cep::tool
