// SPDX-License-Identifier: Apache-2.0
//
// Deviation: what each rank's phase took beyond that of its peers in the same step, and how much of that is chance.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "verdict/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

class Deviation {
  public:
    Deviation(const LocalPhase& phase, const PeerGroup& group);

    [[nodiscard]] const std::vector<std::size_t>& ranks() const { return group_.ranks; }
    /// By step; NaN where there is no row. About 0 for a rank as usual. `peer` is an index into ranks().
    [[nodiscard]] std::span<const double> excess_ms(std::size_t peer) const {
        return std::span(excess_).subspan(peer * usual_.size(), usual_.size());
    }
    /// Whether the phase contains waiting.
    [[nodiscard]] bool contains_waiting() const { return contains_waiting_; }
    /// What a rank as usual takes in this step.
    [[nodiscard]] double usual_ms(std::size_t step) const { return usual_[step]; }
    /// Robust standard deviation of a rank's steps about its own median.
    [[nodiscard]] double noise_ms() const { return noise_ms_; }
    /// Robust standard deviation of ranks' medians, among the faster half of them: the others may all be slow.
    [[nodiscard]] double spread_ms() const { return spread_ms_; }
    /// By how much the variance of a mean over neighbouring steps exceeds that of independent ones.
    [[nodiscard]] double inflation() const { return inflation_; }

  private:
    void find_excess(const LocalPhase& phase);
    void centre();
    void find_noise();

    const PeerGroup& group_;
    bool contains_waiting_ = false;
    std::vector<double> usual_;
    std::vector<double> excess_;  // by peer, then step
    double noise_ms_ = 0;
    double spread_ms_ = 0;
    double inflation_ = 1;
};

}  // namespace cep::tool
