// SPDX-License-Identifier: Apache-2.0
//
// Launch facts: how phases go on beside communication that they begin on other streams, from some of their spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ledger/waits_beside_work.hpp"
#include "stats/group_slope.hpp"

namespace cep::tool {

class LaunchCollector {
  public:
    /// Of whom the next spans are.
    void enter_rank(std::size_t rank) { rank_ = rank; }
    /// A span of a phase, and what it began on other streams. `phase`: its number.
    void take(std::uint32_t phase, const Interval& span, const WaitsBesideWork& beside);
    /// By phase.
    [[nodiscard]] std::map<std::uint32_t, LaunchFacts> find() const;

  private:
    /// The spans of a phase in which a stream has the same last launch.
    struct LastLaunch {
        double ends = 0;  // of the phase
        LaunchShares shares{};
    };
    struct PhaseSpans {
        struct Lengths {
            double wait_ms;
            double span_ms;
            double before_ms;  // of it, before the first communication
        };
        std::map<std::size_t, std::vector<Lengths>> of_rank{};
        bool has_one_each = true;
        double count = 0;
        double ended = 0;  // with communication
        std::map<std::uint64_t, LastLaunch> lasts{};

        /// Whether what `length_of` says clearly grows by less than `least_slope` with how long they waited.
        template <typename LengthOf>
        [[nodiscard]] bool grows_less(double least_slope, LengthOf length_of) const;
        [[nodiscard]] bool goes_on() const;
    };

    std::size_t rank_ = 0;
    std::map<std::uint32_t, PhaseSpans> phases_;
};

}  // namespace cep::tool
