// SPDX-License-Identifier: Apache-2.0
//
// TimeKind cutter: cuts a window of a rank's time into pieces. Of what runs side by side, the piece that comes first in
// the order of TimeKind hides the others.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ledger/piece.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

inline constexpr std::size_t span_pieces = static_cast<std::size_t>(TimeKind::host_late);  // those that spans make

/// A span, or what is left of it without what it waits for.
struct SpanSegment {
    static constexpr std::int64_t no_launch = std::numeric_limits<std::int64_t>::min();

    Interval interval;
    std::int64_t launch_ns = no_launch;  // when the host launched it; only of spans on the device
    std::uint32_t phase = 0;             // of the rank
    TimeKind piece = TimeKind::other;
    bool is_host_paced = false;  // of compute: it took as long as its host
};

/// What a phase is seen for.
struct Exposure {
    std::uint32_t phase = 0;
    TimeKind piece = TimeKind::other;
    std::int64_t ns = 0;
};

/// One a thread.
class PieceCutter {
  public:
    /// `segments` of any order. `rows_end_ns`: the end of the iteration's own rows; what is in no span is `uncovered`
    /// or `host_late` before it, and `between` behind it. The pieces add up to the window.
    [[nodiscard]] PieceTimes cut(Interval window, std::int64_t rows_end_ns, std::span<const SpanSegment> segments);
    /// The exposures in the last window, of phases of which something is seen, some of them several times.
    [[nodiscard]] std::span<const Exposure> exposures() const { return exposures_; }

  private:
    void sort(Interval window, std::span<const SpanSegment> segments);
    void expose(Interval window, const std::vector<const SpanSegment*>& of_piece, PieceTimes& pieces);
    [[nodiscard]] std::int64_t visible_ns(const Interval& fresh, std::size_t& at) const;
    void cover(const Intervals& fresh);
    void find_gaps(Interval window, PieceTimes& pieces);

    std::array<std::vector<const SpanSegment*>, span_pieces> by_piece_;
    std::vector<const SpanSegment*> on_device_;  // by their begin
    Intervals covered_;
    Intervals fresh_;
    Intervals merged_;
    std::vector<Exposure> exposures_;
};

}  // namespace cep::tool
