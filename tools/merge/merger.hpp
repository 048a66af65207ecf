// SPDX-License-Identifier: Apache-2.0
//
// Merger: writes the rows of all inputs as one file. cep-merge(1) describes the order.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output.hpp"
#include "base/progress.hpp"
#include "merge/row_sorter.hpp"
#include "read/coverage.hpp"
#include "read/file_report.hpp"
#include "read/filter.hpp"

namespace cep::tool {

struct MergeOptions {
    Filter filter;
    AttemptChoice attempt{AttemptChoice::Mode::all, 0};
};

/// Numbers for the runs of the trainer, so that an entry can name its run.
class RunIndex {
  public:
    RunIndex() { static_cast<void>(index_of({})); }
    /// The number of a run; RunOrder{}, of rows without a run, has 0. Thread-safe.
    [[nodiscard]] std::uint32_t index_of(const RunOrder& run);
    /// Not concurrently with index_of().
    [[nodiscard]] const RunOrder& operator[](std::uint32_t index) const { return runs_[index]; }

  private:
    std::mutex mutex_;
    std::vector<RunOrder> runs_;
    std::map<RunOrder, std::uint32_t> indices_;
};

/// Takes the rows of one file to the sorter.
class FileMerge : public RowSink {
  public:
    FileMerge(const MergeOptions& options, RowSorter& sorter, RunIndex& runs, std::size_t index)
        : options_(options), runs_(runs), collector_(sorter, index) {}
    void take(const Row& row, RunOfRow run, std::uint64_t line) override;
    void end(const RunTracker& /*runs*/) override { collector_.end(); }
    [[nodiscard]] const CoverageCollector& coverage() const { return coverage_; }
    /// The size of the rows that are merged.
    [[nodiscard]] std::uint64_t text_bytes() const { return text_bytes_; }

  private:
    /// The run of the last row that has a rank.
    struct LastRun {
        std::int64_t rank = 0;
        int run = RunOfRow::none;
        std::uint32_t index = 0;
    };

    void note_run(const Row& row, RunOfRow run);

    const MergeOptions& options_;
    RunIndex& runs_;
    RowCollector collector_;
    std::uint64_t text_bytes_ = 0;
    LastRun last_run_;
    CoverageCollector coverage_;
};

/// Writes sorted rows. With `last_attempt_only`, it writes of each rank and step only the rows of the last attempt that
/// has spans of that step.
class RowWriter {
  public:
    RowWriter(Output& output, Progress& progress, const RunIndex& runs, bool last_attempt_only)
        : output_(output), progress_(progress), runs_(runs), last_attempt_only_(last_attempt_only) {}
    void take(const RowEntry& row, std::string_view text);
    void finish() { flush_step(); }
    /// How many were written.
    [[nodiscard]] std::uint64_t rows() const { return rows_; }

  private:
    void note_progress(std::size_t bytes);
    void write(std::string_view text);
    void flush_step();

    Output& output_;
    Progress& progress_;
    std::size_t bytes_taken_ = 0;
    std::uint64_t rows_ = 0;
    const RunIndex& runs_;
    bool last_attempt_only_;
    std::optional<std::int64_t> step_;
    std::vector<std::pair<RowEntry, std::string>> rows_of_step_;
    std::map<std::int64_t, RunOrder> last_runs_;  // by rank
};

}  // namespace cep::tool
