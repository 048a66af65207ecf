// SPDX-License-Identifier: Apache-2.0
//
// Tracks: where a timeline shows the spans of a rank. The slices of a track nest: each lies inside another or beside
// it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

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

}  // namespace cep::tool
