// SPDX-License-Identifier: Apache-2.0
//
// File series: the rows of one file, sorted into series by rank and run.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "model/job_parts.hpp"
#include "model/load.hpp"
#include "model/series_builder.hpp"
#include "read/file_reader.hpp"
#include "read/open_spans.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

class FileSeries final : public RowSink {
  public:
    FileSeries(const LoadOptions& options, std::shared_ptr<SampleBudget> budget)
        : options_(options), meter_(std::move(budget)) {}
    // Nearly all rows are spans of the rank and the run that the row before was of.
    void take(const Row& row, std::uint64_t line) override {
        if (settled_ == nullptr || row.type != RowType::span || *row.rank != last_rank_) return take_other(row, line);
        add(*settled_->series, row);
        open_spans_.take(row, settled_->attempt, line);
    }
    /// Once, after the last row.
    [[nodiscard]] JobParts finish();

  private:
    using SeriesByRun = std::map<int, SeriesBuilder>;  // by index of the run in the file

    /// Where the rows of a rank go.
    struct RankState {
        int run = unknown_run;  // index of the run in the file
        std::int64_t attempt = 1;
        SeriesBuilder* series = nullptr;  // nullptr: the attempt was not asked for, or there are too many
        bool left_out = false;            // there are too many ranks
    };
    static constexpr int unknown_run = std::numeric_limits<int>::min();

    void add(SeriesBuilder& series, const Row& row) {
        if (row.is_unfinished) [[unlikely]]
            return;  // nobody knows how long it would have taken
        if (options_.only_comm && (row.kind != schema::Kind::comm || !series.admits_channel(row, meter_.budget())))
            return;
        series.add(row, meter_);
        if (meter_.is_due()) [[unlikely]]
            spend(series);
    }
    void spend(const SeriesBuilder& series);
    void enter_rank(std::int64_t rank);
    void enter_run(RankState& state, std::int64_t rank, int run);
    void take_other(const Row& row, std::uint64_t line);
    void take_mark(const Row& row);

    const LoadOptions& options_;
    SampleMeter meter_;
    RunTracker tracker_;
    std::map<std::int64_t, SeriesByRun> ranks_;
    std::unordered_map<std::int64_t, RankState> states_;
    RankState* last_state_ = nullptr;  // rows of a rank come together
    std::int64_t last_rank_ = 0;
    RankState* settled_ = nullptr;  // where all spans of the last rank go until a run row comes; nullptr: it depends
    OpenSpans open_spans_;
    JobParts parts_;
};

}  // namespace cep::tool
