// SPDX-License-Identifier: Apache-2.0
//
// Row matcher: from the rows of one file to a table of its collectives, whatever their number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "matching/collective_key.hpp"
#include "matching/match_table.hpp"
#include "matching/process_group.hpp"
#include "read/coverage.hpp"
#include "read/file_report.hpp"
#include "read/filter.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

/// The comm spans of one file. All attempts of a step count: each is a measurement of the network.
class RowMatcher : public RowSink {
  public:
    explicit RowMatcher(const Filter& filter) : filter_(filter) {}
    void take(const Row& row, std::uint64_t line) override;

    [[nodiscard]] const MatchTable& table() const { return table_; }
    /// Which ranks there are.
    [[nodiscard]] CoverageCollector coverage() const;

  private:
    /// What the rows of one group and name have in common.
    struct Stream {
        std::uint32_t channel = 0;
        CollectiveKey key;
        std::optional<std::int64_t> step;
        std::uint64_t count = 0;
    };

    /// The run that a rank is in.
    struct RankRun {
        int run = RunTracker::no_run;
        std::int64_t attempt = 1;
        std::unordered_map<std::string, Stream> streams;  // a cache
        std::vector<RunInfo> infos;                       // by run
    };

    RankRun& run_of(const Row& row);
    Stream& stream_of(RankRun& run, const Row& row);
    void limit_streams();
    [[nodiscard]] static Channel channel_of(const Row& row, const RankRun& rank);

    const Filter& filter_;
    RunTracker tracker_;
    CoverageCollector coverage_;
    MatchTable table_{MatchTable::max_matches_of_file};
    std::unordered_map<std::int64_t, RankRun> ranks_;
    std::size_t streams_ = 0;  // of all ranks
    std::size_t stream_bytes_ = 0;
    std::string stream_key_;
};

}  // namespace cep::tool
