// SPDX-License-Identifier: Apache-2.0
//
// Merger: the rows of all inputs as one file. The order is in cep-merge(1).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coverage.hpp"
#include "file_reader.hpp"
#include "filter.hpp"
#include "output.hpp"
#include "row_sorter.hpp"
#include "run_tracker.hpp"

namespace cep::analysis {

struct MergeOptions {
    Filter filter;
    AttemptChoice attempt{AttemptChoice::Mode::all, 0};
};

/// The rows of one file on their way into the sorter.
class FileMerge : public RowSink {
  public:
    FileMerge(const MergeOptions& options, RowSorter& sorter, std::uint64_t file)
        : options_(options), sorter_(sorter), file_(file) {}
    void take(const Row& row, std::uint64_t line) override;
    void end() override;
    [[nodiscard]] const CoverageCollector& coverage() const { return coverage_; }

  private:
    void note_coverage(const Row& row);
    void add(const SortedRow& row, std::string_view text);

    const MergeOptions& options_;
    RowSorter& sorter_;
    std::uint64_t file_;
    std::optional<RowBatch> batch_;  // nothing until a row is there for it
    RunTracker tracker_;
    CoverageCollector coverage_;
    std::optional<std::int64_t> last_rank_;
};

/// Writes sorted rows; with `last_attempt_only`, of each rank and step those of the last attempt that has spans of it.
class RowWriter {
  public:
    RowWriter(Output& output, bool last_attempt_only) : output_(output), last_attempt_only_(last_attempt_only) {}
    void take(const SortedRow& row, std::string_view text);
    void finish() { flush_step(); }

  private:
    using RunKey = std::pair<std::int64_t, std::int64_t>;

    void write(std::string_view text);
    void flush_step();

    Output& output_;
    bool last_attempt_only_;
    std::optional<std::int64_t> step_;
    std::vector<std::pair<SortedRow, std::string>> rows_of_step_;
    std::map<std::int64_t, RunKey> last_runs_;  // by rank
};

}  // namespace cep::analysis
