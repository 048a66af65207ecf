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

/// Spans of several ranks that are the same collective, joined by arrows.
class Flows {
  public:
    struct Member {
        std::int64_t process = 0;
        std::uint64_t thread = 0;
        std::int64_t time_ns = 0;  // of its end of an arrow
    };
    struct Flow {
        std::uint64_t id = 0;
        Member last;
        std::size_t arrows = 0;
    };

    /// The flow of a collective, whose last member is the one before; a new one has no arrows and no id.
    [[nodiscard]] Flow& of(std::uint64_t key) { return flows_[key]; }
    [[nodiscard]] std::uint64_t new_id() { return ++last_id_; }
    [[nodiscard]] std::unordered_map<std::uint64_t, Flow>& all() { return flows_; }

  private:
    std::unordered_map<std::uint64_t, Flow> flows_;
    std::uint64_t last_id_ = 0;
};

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

    TraceWriter(Output& output, std::uint64_t max_bytes, const Filter& shown, const TraceFacts& facts);
    TraceWriter(const TraceWriter&) = delete;
    TraceWriter& operator=(const TraceWriter&) = delete;
    ~TraceWriter();

    void take(const RowEntry& entry, std::string_view text);
    void finish();
    [[nodiscard]] const Counts& counts() const { return counts_; }

  private:
    class Members;

    void begin(std::int64_t base_ns);
    /// Nothing where there is no track for the row.
    [[nodiscard]] std::optional<Tracks::Track> append_row(const Row& row);
    [[nodiscard]] std::optional<Tracks::Track> append_slice(const Row& row);
    [[nodiscard]] std::optional<Tracks::Track> append_counter(const Row& row);
    [[nodiscard]] std::optional<Tracks::Track> append_mark(const Row& row);
    void append_names(const Row& row, const Stream& stream, const Tracks::Track& track);
    void append_head(std::string_view phase, const Tracks::Track& track, std::int64_t start_ns);
    void append_args(bool is_open);
    void append_time(std::int64_t time_ns);
    void append_separator();
    void join(const Row& row, std::uint32_t attempt, const Tracks::Track& track);
    void append_arrow(std::string_view phase, const Flows::Flow& flow);
    void append_flow_ends();
    void flush();

    Output& output_;
    const std::uint64_t max_bytes_;
    const Filter& shown_;
    const TraceFacts& facts_;
    RowParser parser_;
    std::unique_ptr<Members> members_;
    Tracks tracks_;
    Flows flows_;
    std::size_t joined_flows_ = 0;  // which need an end
    std::string text_;              // of the row, with padding
    std::string events_;            // of one row
    std::uint64_t written_bytes_ = 0;
    std::int64_t base_ns_ = 0;
    bool began_ = false;
    bool full_ = false;
    Counts counts_;
};

}  // namespace cep::tool
