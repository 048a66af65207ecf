// SPDX-License-Identifier: Apache-2.0
//
// TimeKind cutter: cuts a window of a rank's time into pieces. Of what runs side by side, the piece that comes first in
// the order of TimeKind hides the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ledger/piece.hpp"
#include "model/device_queue.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

inline constexpr std::size_t span_pieces = static_cast<std::size_t>(TimeKind::host_late);  // those that spans make

/// A span, or what is left of it without what it waits for.
struct SpanSegment {
    static constexpr std::int64_t no_launch = std::numeric_limits<std::int64_t>::min();

    Interval interval{};
    std::int64_t launch_ns = no_launch;  // when the host launched it; only of what spans on the device begin with
    std::int64_t span_end_ns = 0;        // with a launch: of all of the span
    std::uint32_t phase = 0;             // of the rank
    std::uint16_t stream = 0;            // with a launch
    TimeKind piece = TimeKind::other;
    bool is_host_paced = false;  // of compute: it took as long as its host
};

/// What segments do not show of the waiting in a step.
struct InnerWaiting {
    PieceTimes pieces;     // inside of segments of compute; nobody knows where
    bool is_known = true;  // false: no collective was matched
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
    /// By how much earlier the last window would end without the waiting in it, which is `waiting_ns`. Without the
    /// waiting before a launch, the device would begin what was launched as much earlier, but not before its launch.
    /// Where the device was idle at a launch, the host may have waited for the device, so that it would have been
    /// earlier as well.
    [[nodiscard]] std::int64_t avoidable_ns(std::int64_t waiting_ns) const;
    /// Phases of work in the last window after which the device began the stream's next work as soon as that was
    /// launched: it was done before, and the phase ended when its host let it. Some of them several times.
    [[nodiscard]] std::span<const std::uint32_t> find_launch_bound();

  private:
    /// Segments by their begin.
    class Queue {
      public:
        void clear() {
            all_.clear();
            next_ = 0;
            is_sorted_ = true;
        }
        void add(const SpanSegment& segment) {
            is_sorted_ &= all_.empty() || all_.back()->interval.begin_ns <= segment.interval.begin_ns;
            all_.push_back(&segment);
        }
        [[nodiscard]] const std::vector<const SpanSegment*>& all() const { return all_; }
        [[nodiscard]] bool is_sorted() const { return is_sorted_; }
        void sort();
        [[nodiscard]] bool empty() const { return next_ == all_.size(); }
        [[nodiscard]] const SpanSegment& front() const { return *all_[next_]; }
        void pop() { ++next_; }

      private:
        std::vector<const SpanSegment*> all_;
        std::size_t next_ = 0;
        bool is_sorted_ = true;
    };

    void sort(Interval window, std::span<const SpanSegment> segments);
    [[nodiscard]] const SpanSegment* find_seen(std::int64_t at_ns, std::int64_t& until_ns);
    void expose(const SpanSegment& segment, std::int64_t ns, PieceTimes& pieces);
    void add_gap(Interval gap, std::int64_t rows_end_ns, PieceTimes& pieces);

    std::array<Queue, span_pieces> queues_;  // by piece
    std::vector<Queue*> used_;               // those with segments, in their order
    Queue on_device_;
    std::vector<Exposure> exposures_;
    std::vector<const SpanSegment*> last_work_;  // of each stream, as far as it was seen
    std::vector<std::uint32_t> launch_bound_;
};

}  // namespace cep::tool
