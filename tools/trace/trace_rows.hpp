// SPDX-License-Identifier: Apache-2.0
//
// Trace rows: puts the rows that a trace shows in the order of their starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "merge/row_sorter.hpp"
#include "model/clock_shifts.hpp"
#include "read/coverage.hpp"
#include "read/file_report.hpp"
#include "read/filter.hpp"
#include "read/inputs.hpp"
#include "read/open_spans.hpp"

namespace cep::tool {

/// What the rows of all files say, besides what is shown.
struct TraceFacts {
    CoverageCollector coverage;
    std::map<std::int64_t, RunInfo> ranks;                         // with a run row: the last
    std::set<std::pair<std::uint32_t, std::uint64_t>> still_open;  // file and position of their last rows
    /// The last attempt at a rank's step that has spans of it, of later ones than the first; AttemptChoice::last only.
    std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> last_attempts;

    void merge(TraceFacts&& other);
};

struct TraceFilter {
    Filter asked;  // of the job's ranks, these are expected
    Filter shown;  // the rows of the trace
    AttemptChoice attempt;
};

/// The start of a row that has one, with the clock of its host set right.
[[nodiscard]] std::int64_t shown_start_ns(const Row& row, const ClockShifts& clocks);

/// A duration in whole nanoseconds, as a trace shows it.
[[nodiscard]] std::int64_t shown_ns(double duration_ms);

/// Takes the rows of one file to the sorter, in the order of starts; of those, the longer one first.
class FileTrace : public RowSink {
  public:
    FileTrace(const TraceFilter& filter, const ClockShifts& clocks, RowSorter& sorter, std::size_t index)
        : filter_(filter), clocks_(clocks), collector_(sorter, index), index_(static_cast<std::uint32_t>(index)) {}
    void take(const Row& row, RunOfRow run, std::uint64_t line) override;
    void end(const RunTracker& runs) override;
    [[nodiscard]] TraceFacts& facts() { return facts_; }

  private:
    void note(const Row& row);
    void add(const Row& row, std::int64_t attempt, std::uint64_t line);

    const TraceFilter& filter_;
    const ClockShifts& clocks_;
    RowCollector collector_;
    const std::uint32_t index_;
    TraceFacts facts_;
    OpenSpans open_spans_;
    std::map<std::uint64_t, std::uint64_t> open_positions_;  // by line
};

}  // namespace cep::tool
