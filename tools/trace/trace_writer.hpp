// SPDX-License-Identifier: Apache-2.0
//
// Trace writer: rows as Chrome trace events, which Perfetto and chrome://tracing show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/output.hpp"
#include "merge/row_entry.hpp"
#include "read/row.hpp"
#include "trace/trace_rows.hpp"
#include "trace/tracks.hpp"

namespace cep::tool {

/// Writes one trace. Rows must come in the order of FileTrace.
class TraceWriter {
  public:
    /// Numbers of rows.
    struct Counts {
        std::uint64_t written = 0;
        std::uint64_t without_start = 0;
        std::uint64_t beyond_size = 0;    // that came when the trace was full
        std::uint64_t without_track = 0;  // for which there were too many tracks
    };

    TraceWriter(Output& output, std::uint64_t max_bytes, const Filter& shown, const TraceFacts& facts,
                const ClockShifts& clocks);
    TraceWriter(const TraceWriter&) = delete;
    TraceWriter& operator=(const TraceWriter&) = delete;
    ~TraceWriter();

    void take(const RowEntry& entry, std::string_view text);
    void finish();
    [[nodiscard]] const Counts& counts() const { return counts_; }

  private:
    class Members;
    /// Spans of several ranks that are the same collective, joined by arrows.
    struct Flow {
        std::uint64_t id = 0;  // 0: no member is known yet
        Tracks::Track last;    // of the last member, and its end of an arrow
        std::int64_t last_ns = 0;
        std::size_t arrows = 0;
    };

    void begin(std::int64_t base_ns);
    /// Nothing where there is no track for the row.
    [[nodiscard]] std::optional<Tracks::Track> append_row(const Row& row);
    [[nodiscard]] std::optional<Tracks::Track> append_slice(const Row& row);
    [[nodiscard]] std::optional<Tracks::Track> append_point(const Row& row);
    void append_names(const Row& row, const Stream& stream, const Tracks::Track& track);
    void append_head(std::string_view phase, const Tracks::Track& track, std::int64_t start_ns);
    void append_args(bool is_open);
    void append_clocks();
    void append_time(std::int64_t time_ns);
    void append_separator();
    void join(const Row& row, std::uint32_t attempt, const Tracks::Track& track);
    Flow& flow_of(const Row& row, std::uint32_t attempt);
    void append_arrow(std::string_view phase, const Flow& flow);
    void append_flow_ends();
    void flush();

    Output& output_;
    const std::uint64_t max_bytes_;
    const Filter& shown_;
    const TraceFacts& facts_;
    const ClockShifts& clocks_;
    RowParser parser_;
    std::unique_ptr<Members> members_;
    Tracks tracks_;
    std::unordered_map<std::uint64_t, Flow> flows_;                  // by collective
    std::unordered_map<std::uint64_t, std::uint64_t> spans_of_key_;  // of a rank
    std::uint64_t last_flow_ = 0;
    std::size_t joined_flows_ = 0;  // which need an end
    std::string text_;              // of the row, with padding
    std::string events_;            // of one row
    std::uint64_t written_bytes_ = 0;
    std::int64_t base_ns_ = 0;
    std::int64_t written_start_ns_ = 0;  // of the row, before its clock is set right
    bool began_ = false;
    bool full_ = false;
    Counts counts_;
};

}  // namespace cep::tool
