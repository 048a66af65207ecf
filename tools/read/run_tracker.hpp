// SPDX-License-Identifier: Apache-2.0
//
// Runs: assigns each row to a start of the trainer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
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

[[nodiscard]] RunOrder order_of(const RunInfo& run);
[[nodiscard]] bool same_run(const RunInfo& a, const RunInfo& b);

/// Attributes the rows of one file to runs, rank by rank.
///
/// In a file as the library writes it, a row belongs to the last run row of its rank before it. In a merged file all
/// run rows come first; of run rows with no other row between them, the last one that started before a row is its run.
class RunTracker {
  public:
    static constexpr int no_run = -1;

    /// The run of a row.
    struct Place {
        int run = no_run;        // index into runs(rank)
        bool new_run = false;    // this run row begins a run not seen before in the file
        bool returning = false;  // this run row repeats a run that another run row has followed since
    };

    /// Rows must come in the file's order.
    Place observe(const Row& row) {
        const std::int64_t rank = row.rank.value_or(0);
        if (last_ == nullptr || last_rank_ != rank) {
            last_ = &ranks_[rank];
            last_rank_ = rank;
        }
        if (row.type == RowType::run) return observe_run(*last_, *row.run);
        last_->other_rows_since = true;
        const bool one_run = last_->block_end - last_->block_begin == 1;
        return {one_run ? static_cast<int>(last_->block_begin) : choose(*last_, row), false, false};
    }
    /// After a row that was no run row: whether all rows of its rank up to the next run row belong to the same run.
    [[nodiscard]] bool is_settled() const { return last_->block_end - last_->block_begin <= 1; }
    [[nodiscard]] const std::vector<RunInfo>& runs(std::int64_t rank) const;

  private:
    /// The last run of a block that had started by `time_ns`.
    struct Started {
        std::int64_t attempt = 0;  // among the runs of this attempt only; 0 in a list of all
        std::int64_t time_ns = 0;
        std::size_t run = 0;
    };
    /// Finds runs among many.
    struct Index {
        std::map<std::tuple<std::string, std::int64_t>, std::size_t> by_id;  // run_id and attempt
        std::vector<Started> started;                                        // of the block, in order of time
        std::vector<Started> started_by_attempt;
    };
    struct RankRuns {
        std::vector<RunInfo> runs;
        std::size_t block_begin = 0;  // runs since here had no other row between them
        std::size_t block_end = 0;
        bool other_rows_since = false;
        std::unique_ptr<Index> index;  // none without a run row: a file may have many such ranks
    };

    static Place observe_run(RankRuns& rank, const RunInfo& run);
    static void list_started(RankRuns& rank);
    static int choose(RankRuns& rank, const Row& row);

    std::unordered_map<std::int64_t, RankRuns> ranks_;
    std::int64_t last_rank_ = 0;
    RankRuns* last_ = nullptr;
};

}  // namespace cep::tool
