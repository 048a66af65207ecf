// SPDX-License-Identifier: Apache-2.0
//
// Waits beside work: how much of the waiting in collectives on other streams is in the way of a phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stats/interval_set.hpp"

namespace cep::tool {

/// A collective that a phase began on another stream.
struct CommBesideWork {
    std::uint32_t stream = 0;
    Interval interval;
    std::int64_t waiting_ns = 0;
    std::optional<std::int64_t> launch_ns;
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
    };

    void clear();
    [[nodiscard]] bool empty() const { return streams_.empty(); }
    /// Each stream's in the order of their begin.
    void add(const CommBesideWork& comm);
    [[nodiscard]] Sum until(std::int64_t phase_end_ns) const;

  private:
    /// Collectives one behind the other. Those that are late began when the one before ended, so that the rank was
    /// ready for them before: nobody knows when.
    class Queue {
      public:
        void add(std::int64_t waiting_ns, bool is_late);
        /// `ends_phase`: the phase ends with the last of them. Then those that were late waited for as much more as the
        /// others did, one by one; what does not end with its communication shows by its end how late that was.
        [[nodiscard]] std::int64_t waiting_ns(bool ends_phase) const;

      private:
        std::int64_t last_ns_ = 0;
        std::int64_t new_ns_ = 0;  // of each, what exceeds the one before
        std::int64_t late_ = 0;
        std::int64_t late_ns_ = 0;  // of new_ns_
        std::int64_t timely_ = 0;
        std::int64_t timely_ns_ = 0;  // of new_ns_, but for the first: that was late before
    };
    struct Stream {
        std::uint32_t number = 0;
        std::int64_t end_ns = 0;
        std::int64_t launch_ns = 0;
        bool ends_phase = false;
        Queue all{};
        Queue for_late{};
    };
    struct Late {
        std::size_t stream = 0;  // index
        std::int64_t waiting_ns = 0;
        std::int64_t duration_ns = 0;
        std::int64_t host_ns = 0;  // between its launch and that of the one before
        bool is_for_late = false;
    };

    std::size_t index_of(std::uint32_t stream);
    [[nodiscard]] Sum on_stream(std::size_t stream, std::int64_t phase_end_ns) const;
    [[nodiscard]] Sum held_up(std::size_t stream, std::int64_t behind_ns) const;

    std::vector<Stream> streams_;
    std::vector<Late> late_;
};

}  // namespace cep::tool
