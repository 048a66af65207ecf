// SPDX-License-Identifier: Apache-2.0
//
// Comm spans: from the rows of one file to a table of its collectives.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "coverage.hpp"
#include "file_report.hpp"
#include "filter.hpp"
#include "match_table.hpp"
#include "run_tracker.hpp"

namespace cep::comm {

/// The comm spans of one file. All attempts of a step count: each is a measurement of the network.
class CommSpans : public analysis::RowSink {
  public:
    explicit CommSpans(const analysis::Filter& filter) : filter_(filter) {}
    void take(const analysis::Row& row, std::uint64_t line) override;

    [[nodiscard]] const MatchTable& table() const { return table_; }
    /// Which ranks there are.
    [[nodiscard]] analysis::CoverageCollector coverage() const;

  private:
    /// What the rows of one group and name have in common.
    struct Stream {
        std::uint32_t channel = 0;
        std::uint64_t hash = 0;  // of the channel
    };
    /// The run that a rank is in.
    struct RankRun {
        int run = analysis::RunTracker::no_run;
        std::int64_t attempt = 1;
        std::unordered_map<std::string, Stream> streams;
    };

    RankRun& run_of(const analysis::Row& row);
    const Stream& stream_of(RankRun& run, const analysis::Row& row);
    [[nodiscard]] std::string group_of(const analysis::Row& row, int run) const;

    const analysis::Filter& filter_;
    analysis::RunTracker tracker_;
    MatchTable table_{MatchTable::max_matches_of_file};
    std::unordered_map<std::int64_t, RankRun> ranks_;
    std::string stream_key_;
};

}  // namespace cep::comm
