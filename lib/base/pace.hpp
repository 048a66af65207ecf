// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/host_clock.hpp"

namespace cep {

/// The pause between two rounds of a thread that looks for work. A wakeup costs more than a piece of work: so the pause
/// grows while rounds find little, and shrinks while they find much.
class Pace {
  public:
    static constexpr std::int64_t shortest_ns = 1 * ns_per_ms;
    static constexpr std::int64_t longest_ns = 50 * ns_per_ms;
    /// While a caller waits for the result.
    static constexpr std::int64_t urgent_ns = ns_per_ms / 4;

    /// The pause after a round that found so much.
    [[nodiscard]] std::int64_t next_ns(std::size_t found) noexcept {
        constexpr std::size_t much = 1024;
        pause_ns_ = found > much ? pause_ns_ / 2 : pause_ns_ + pause_ns_ / 2;
        return pause_ns_ = std::clamp(pause_ns_, shortest_ns, longest_ns);
    }
    void restart() noexcept { pause_ns_ = 0; }

  private:
    std::int64_t pause_ns_ = 0;
};

}  // namespace cep
