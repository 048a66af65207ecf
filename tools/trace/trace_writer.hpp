// SPDX-License-Identifier: Apache-2.0
//
// Trace writer: rows as Chrome trace events, which Perfetto and chrome://tracing show.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/output.hpp"
#include "read/row.hpp"
#include "trace/trace_rows.hpp"

namespace cep::tool {

/// What spans run on: a stream of a device, the host, or what another clock timed.
struct Stream {
    enum class Clock : std::uint8_t { host, external, device };
    Clock clock = Clock::host;
    std::optional<std::int64_t> device;
    std::int64_t stream = 0;

    friend auto operator<=>(const Stream&, const Stream&) = default;
};

/// The tracks of one stream. Spans that overlap without nesting are on different ones.
class Lanes {
  public:
    static constexpr std::size_t max_lanes = 256;

    /// The lane for a span. Spans come in the order of their starts, the longer one first. Nothing where too many
    /// spans overlap.
    [[nodiscard]] std::optional<std::size_t> place(std::int64_t start_ns, std::int64_t end_ns);

  private:
    std::vector<std::vector<std::int64_t>> open_ends_ns_;  // by lane: of the spans that are not over, the outer first
};

/// The numbers of processes and threads in a trace.
class Tracks {
  public:
    static constexpr std::size_t max_streams = std::size_t{1} << 17;  // of all ranks

    struct Track {
        std::int64_t process = 0;
        std::uint64_t thread = 0;
        std::size_t sort_index = 0;  // among the threads of the process
        std::size_t lane = 0;
        bool new_process = false;
        bool new_track = false;
    };

    /// The track for a span. Nothing where there are too many.
    [[nodiscard]] std::optional<Track> place(std::int64_t rank, const Stream& stream, std::int64_t start_ns,
                                             std::int64_t end_ns);
    /// The first track of a rank's host, for what is a point in time.
    [[nodiscard]] std::optional<Track> host_track(std::int64_t rank);

  private:
    struct OfStream {
        std::uint64_t first_thread = 0;
        std::size_t first_sort_index = 0;
        std::size_t lanes_shown = 0;
        Lanes lanes;
    };
    struct Process {
        std::int64_t number = 0;
        bool is_shown = false;
        std::map<Stream, OfStream> streams;
    };

    Process& process_of(std::int64_t rank);
    OfStream* stream_of(Process& process, const Stream& stream);
    static Track show(Process& process, OfStream& stream, std::size_t lane);

    std::map<std::int64_t, Process> processes_;  // by rank
    std::size_t streams_ = 0;
};

/// Writes one trace. Rows must come in the order of FileTrace.
class TraceWriter {
  public:
    /// Numbers of rows.
    struct Counts {
        std::uint64_t written = 0;
        std::uint64_t without_start = 0;
        std::uint64_t over_limit = 0;     // that came when the trace was full
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
