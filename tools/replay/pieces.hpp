// SPDX-License-Identifier: Apache-2.0
//
// Pieces: the rows of one rank in one step, cut into what ran one after the other on each stream.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/inner_launches.hpp"
#include "model/job_rows.hpp"

namespace cep::tool {

inline constexpr std::uint32_t no_index = std::numeric_limits<std::uint32_t>::max();

/// Which piece it is in each step: of which stream, phase, position among the spans of the phase, and segment of the
/// span.
struct PieceKey {
    static constexpr std::uint32_t max_segment = (1U << 14) - 1;
    static constexpr std::uint32_t join_segment = 1U << 13;  // plus the segment: where a span waited for communication

    [[nodiscard]] static std::uint64_t pack(std::uint16_t stream, std::uint16_t name, std::uint32_t seq,
                                            std::uint32_t segment) {
        return std::uint64_t{stream} << 48 | std::uint64_t{name} << 32 | std::uint64_t{seq} << 14 |
               (segment < max_segment ? segment : max_segment);
    }
    [[nodiscard]] static std::uint16_t stream(std::uint64_t key) { return static_cast<std::uint16_t>(key >> 48); }
    [[nodiscard]] static std::uint16_t name(std::uint64_t key) { return static_cast<std::uint16_t>(key >> 32); }
    [[nodiscard]] static std::uint32_t seq(std::uint64_t key) {
        return static_cast<std::uint32_t>(key) >> 14 & ((1U << 18) - 1);
    }
    /// The segment that comes behind another row inside of the span. Rows that are lost before it do not change that.
    [[nodiscard]] static std::uint32_t segment_behind(std::uint16_t name, std::uint32_t seq) {
        return 1 + (name * 997U + seq) % (join_segment - 1);
    }
    /// The same span, whatever the segment.
    [[nodiscard]] static std::uint64_t span_of(std::uint64_t key) { return key >> 14; }
};

/// Segment of a span of local work, or one rank in a collective.
struct Piece {
    double start_ms = 0;
    double end_ms = 0;
    double own_ms = 0;      // of local work
    double limit_ms = 0;    // of a lost one: it ended before
    double late_ms = 0;     // of communication: it ended so much later than its collective
    double stopped_ms = 0;  // so long it stopped inside; of communication: the span in which it begins, until then
    float waiting_ms = 0;   // of communication: until its transfer
    float lag_ms = NAN;     // from its launch to its start; NaN where that is not known
    std::uint64_t key = 0;
    std::uint32_t collective = 0;
    std::uint32_t slot = no_index;  // in the role's template
    std::uint32_t node = no_index;  // in the graph
    bool is_comm = false;
    bool is_nested = false;  // communication inside of a span of its stream
    bool is_lost = false;
    bool is_typical = false;  // its own work is not known
    bool is_of_host = false;  // its host timed it

    /// NaN where that is not known.
    [[nodiscard]] double launch_ms() const { return start_ms - static_cast<double>(lag_ms); }
    [[nodiscard]] std::uint16_t stream() const { return PieceKey::stream(key); }
    /// Whether its end was recorded.
    [[nodiscard]] bool is_known() const { return !is_lost && !is_typical; }
};

/// For pieces of one stream.
[[nodiscard]] inline bool starts_before(const Piece& a, const Piece& b) {
    return a.start_ms != b.start_ms ? a.start_ms < b.start_ms : a.end_ms < b.end_ms;
}

/// Pieces of one rank in one step, stream by stream, in the order of their starts.
struct RankPieces {
    std::uint32_t rank = 0;
    double first_ms = 0;  // start of the step, or of the first piece
    double last_ms = 0;   // end of the step, or of the last piece
    std::vector<Piece> all;
    std::vector<std::uint32_t> stream_ends;  // behind the last piece of each stream

    [[nodiscard]] std::uint32_t begin_of(std::size_t stream) const { return stream == 0 ? 0 : stream_ends[stream - 1]; }
    /// After changes to `all`, which is in order.
    void find_streams();
};

/// `tolerance_ms`: times closer than this are the same. Sorts the rows.
void cut_into_pieces(std::span<TimedRow> rows, const RankRows& of_rank, double tolerance_ms, RankPieces& pieces);

}  // namespace cep::tool
