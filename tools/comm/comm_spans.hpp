// SPDX-License-Identifier: Apache-2.0
//
// Comm spans: from the rows of one file to a table of its collectives.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/match_table.hpp"
#include "read/coverage.hpp"
#include "read/file_report.hpp"
#include "read/filter.hpp"
#include "read/run_tracker.hpp"

namespace cep::comm {

/// The comm spans of one file. All attempts of a step count: each is a measurement of the network.
class CommSpans : public tool::RowSink {
  public:
    explicit CommSpans(const tool::Filter& filter) : filter_(filter) {}
    void take(const tool::Row& row, std::uint64_t line) override;

    [[nodiscard]] const MatchTable& table() const { return table_; }
    /// Which ranks there are.
    [[nodiscard]] tool::CoverageCollector coverage() const;

  private:
    /// What the rows of one group and name have in common.
    struct Stream {
        std::uint32_t channel = 0;
        std::uint64_t hash = 0;  // of the channel
    };
    using Coordinates = std::array<std::optional<std::int64_t>, 4>;  // dp, tp, pp and cp

    /// The run that a rank is in.
    struct RankRun {
        int run = tool::RunTracker::no_run;
        std::int64_t attempt = 1;
        std::unordered_map<std::string, Stream> streams;  // a cache
        std::vector<Coordinates> coordinates;             // by run
    };

    RankRun& run_of(const tool::Row& row);
    const Stream& stream_of(RankRun& run, const tool::Row& row);
    void limit_streams();
    [[nodiscard]] static std::string group_of(const tool::Row& row, const RankRun& rank);

    const tool::Filter& filter_;
    tool::RunTracker tracker_;
    tool::CoverageCollector coverage_;
    MatchTable table_{MatchTable::max_matches_of_file};
    std::unordered_map<std::int64_t, RankRun> ranks_;
    std::size_t streams_ = 0;  // of all ranks
    std::size_t stream_bytes_ = 0;
    std::string stream_key_;
};

}  // namespace cep::comm
