// SPDX-License-Identifier: Apache-2.0
//
// Waits beside work: how much of the waiting in collectives on other streams is in the way of a phase.
#pragma once

#include <cstdint>
#include <vector>

#include "ledger/piece_cutter.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

/// A collective that a phase began on another stream.
struct CommBesideWork {
    std::uint32_t stream = 0;
    Interval interval;
    std::int64_t waiting_ns = 0;
    std::int64_t launch_ns = SpanSegment::no_launch;
    bool is_for_late = false;
    bool is_at_end = false;  // of the phase
};

/// What a phase waits for in collectives that it began on other streams, where they are one behind the other.
///
/// The phase goes on beside them. A rank that comes earlier than the last one waits, and comes to the next collective
/// as much earlier if it went on meanwhile: of what it waits there, only what exceeds the waiting before is new. It is
/// the same waiting that it does on each stream.
class WaitsBesideWork {
  public:
    struct Sum {
        std::int64_t ns = 0;
        std::int64_t for_late_ns = 0;
        std::int64_t hidden_ns = 0;  // which no row shows where

        [[nodiscard]] double ms() const { return static_cast<double>(ns) * 1e-6; }
        [[nodiscard]] double for_late_ms() const { return static_cast<double>(for_late_ns) * 1e-6; }
    };

    void clear() { all_.clear(); }
    [[nodiscard]] bool empty() const { return all_.empty(); }
    /// In the order of their begin.
    void add(const CommBesideWork& comm) { all_.push_back(comm); }
    [[nodiscard]] Sum until(std::int64_t phase_end_ns) const;

  private:
    [[nodiscard]] Sum on_stream(std::uint32_t stream, std::int64_t phase_end_ns) const;

    std::vector<CommBesideWork> all_;
};

}  // namespace cep::tool
