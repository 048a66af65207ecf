// SPDX-License-Identifier: Apache-2.0
//
// Communication queues: how much of the waiting in overlapped collectives is in the way of the work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stats/interval_set.hpp"

namespace cep::tool {

/// What a phase waits for in collectives that it began on another stream, where they are one behind the other.
///
/// The phase goes on beside them. A rank that comes earlier than the last one waits, and comes to the next collective
/// as much earlier if it went on meanwhile: of what it waits there, only what exceeds the waiting before is new.
class CommQueue {
  public:
    /// `is_late`: it began when the one before ended, so that the rank was ready for it before: nobody knows when.
    /// `host_ns`: between its launch and that of the one before.
    void add(const Interval& waiting, std::int64_t end_ns, std::int64_t host_ns, bool is_late) {
        const std::int64_t ns = waiting.end_ns - waiting.begin_ns;
        if (is_late) held_.push_back({ns, end_ns - waiting.begin_ns, host_ns});
        const std::int64_t more_ns = std::max<std::int64_t>(0, ns - last_ns_);
        new_ns_ += more_ns;
        last_ns_ = ns;
        if (is_late) {
            ++late_;
            late_ns_ += more_ns;
        } else if (++timely_ > 1) {
            timely_ns_ += more_ns;
        }
    }
    /// `ends_phase`: the phase ends with the last of them. Then those that were late waited for as much more as the
    /// others did, one by one; what does not end with its communication shows by its end how late that was.
    [[nodiscard]] std::int64_t waiting_ns(bool ends_phase) const {
        if (!ends_phase || timely_ < 2) return new_ns_;
        return new_ns_ + std::max<std::int64_t>(0, late_ * timely_ns_ / (timely_ - 1) - late_ns_);
    }

    /// `behind_ns`: the phase's work behind the last of them. Between two of which one began when the other ended, the
    /// phase did as much, and waited for the rest.
    [[nodiscard]] std::int64_t held_up_ns(std::int64_t behind_ns) const {
        std::int64_t sum_ns = 0;
        for (const Held& one : held_)
            sum_ns += std::clamp<std::int64_t>(one.duration_ns - std::max(behind_ns, one.host_ns), 0, one.waiting_ns);
        return sum_ns;
    }

  private:
    struct Held {
        std::int64_t waiting_ns;
        std::int64_t duration_ns;
        std::int64_t host_ns;
    };

    std::vector<Held> held_;
    std::int64_t last_ns_ = 0;
    std::int64_t new_ns_ = 0;  // of each, what exceeds the one before
    std::int64_t late_ = 0;
    std::int64_t late_ns_ = 0;  // of new_ns_
    std::int64_t timely_ = 0;
    std::int64_t timely_ns_ = 0;  // of new_ns_, but for the first: that was late before
};

}  // namespace cep::tool
