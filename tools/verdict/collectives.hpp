// SPDX-License-Identifier: Apache-2.0
//
// Collectives matched over ranks, and how much of each is waiting.
#pragma once

#include <cstdint>
#include <vector>

namespace cep::analysis {

/// One collective.
struct Transfer {
    double ms = 0;
    std::uint32_t ranks = 0;  // that were seen in it
};

/// The part of a collective that every rank spends in it: for matched (group, coll), the least duration of any rank. A
/// higher quantile would be that of a rank that waits, as one late rank keeps all the others waiting. The rest of a
/// rank's duration is waiting.
class Transfers {
  public:
    struct Key {
        std::uint32_t step;        // index
        std::uint32_t collective;  // Sample::collective, or a hash of its name and seq

        friend auto operator<=>(const Key&, const Key&) = default;
    };

    void add(Key key, double duration_ms) { durations_.push_back({key, static_cast<float>(duration_ms)}); }
    /// No more are added.
    void finish();
    /// 0 ranks for a collective that was seen on one rank only.
    [[nodiscard]] Transfer of(Key key) const;

  private:
    struct Duration {
        Key key;
        float ms;
    };
    struct Matched {
        Key key;
        float ms;
        std::uint32_t ranks;
    };
    std::vector<Duration> durations_;  // until finish()
    std::vector<Matched> matched_;     // ascending
};

}  // namespace cep::analysis
