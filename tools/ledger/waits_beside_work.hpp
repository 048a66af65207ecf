// SPDX-License-Identifier: Apache-2.0
//
// Waits beside work: how much of the waiting in collectives on other streams is in the way of a phase.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ledger/piece_cutter.hpp"
#include "ledger/step_reading.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

/// A collective that a phase began on another stream.
struct CommBesideWork {
    std::uint32_t stream = 0;
    std::uint32_t phase = 0;  // its own, the same for all ranks
    std::uint32_t seq = 0;
    Interval interval;
    std::int64_t waiting_ns = 0;
    std::int64_t launch_ns = SpanSegment::no_launch;
    bool is_for_late = false;
    bool is_at_end = false;  // of the phase
};

/// When one of them began, counted from the begin of the phase.
struct Launch {
    /// Its own phase, and its number there.
    using Key = std::pair<std::uint32_t, std::uint32_t>;

    Key key;
    std::int64_t after_ns = 0;
    bool is_free = false;  // it began when the phase was ready for it, and not when the one before it ended
};

/// What is known of a phase from many of its spans.
struct LaunchFacts {
    bool goes_on = false;  // it does not wait for what it began
    /// Of those on the streams with which it ends: at which share of its work until the last one they begin.
    std::vector<std::pair<Launch::Key, double>> shares;  // by key

    /// NaN where it is not known.
    [[nodiscard]] double share_of(Launch::Key key) const;
};

/// What a phase waits for in collectives that it began on other streams, where they are one behind the other.
///
/// The phase goes on beside them. A rank that comes earlier than the last one waits, and comes to the next collective
/// as much earlier if it went on meanwhile: of what it waits there, only what exceeds the waiting before is new. It is
/// the same waiting that it does on each stream. A phase that ends with them waits for all that is behind its work: how
/// much that is, a launch shows of which the share is known.
class WaitsBesideWork {
  public:
    struct Sum {
        std::int64_t ns = 0;
        std::int64_t for_late_ns = 0;
        std::int64_t hidden_ns = 0;  // which no row shows where

        [[nodiscard]] double ms() const { return static_cast<double>(ns) * 1e-6; }
        [[nodiscard]] double for_late_ms() const { return static_cast<double>(for_late_ns) * 1e-6; }
    };

    void clear() {
        all_.clear();
        has_seq_ = false;
    }
    [[nodiscard]] bool empty() const { return all_.empty(); }
    /// In the order of their begin.
    void add(const CommBesideWork& comm) {
        all_.push_back(comm);
        has_seq_ |= comm.seq != 0;
    }
    [[nodiscard]] const std::vector<CommBesideWork>& all() const { return all_; }
    /// Calls `use(comm, launch)` for those on a stream.
    template <typename Use>
    void for_each_launch(std::uint32_t stream, const Interval& phase, Use use) const;
    /// `facts`: null where nothing is known.
    [[nodiscard]] Sum until(const Interval& phase, const LaunchFacts* facts) const;

  private:
    [[nodiscard]] Sum on_stream(std::uint32_t stream, const Interval& phase, const LaunchFacts* facts) const;
    [[nodiscard]] std::optional<Sum> behind_work(std::uint32_t stream, const Interval& phase,
                                                 const LaunchFacts& facts) const;

    std::vector<CommBesideWork> all_;
    bool has_seq_ = false;
};

/// Behind one whose row was lost, one may have been late.
template <typename Use>
void WaitsBesideWork::for_each_launch(std::uint32_t stream, const Interval& phase, Use use) const {
    const CommBesideWork* before = nullptr;
    std::uint32_t count = 0;
    for (const CommBesideWork& one : all_) {
        if (one.stream != stream) continue;
        const bool is_next = !has_seq_ || before == nullptr || before->phase != one.phase || one.seq == before->seq + 1;
        const bool is_late = before != nullptr && one.interval.begin_ns - before->interval.end_ns <= tolerance_ns;
        use(one,
            Launch{
                {one.phase, has_seq_ ? one.seq : count}, one.interval.begin_ns - phase.begin_ns, is_next && !is_late});
        before = &one;
        ++count;
    }
}

}  // namespace cep::tool
