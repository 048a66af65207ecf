// SPDX-License-Identifier: Apache-2.0
//
// Deviation: what each rank's phase took beyond that of its peers in the same step, and how much of that is chance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ledger/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// Steps of a rank: all, or those in which the device was still at work when the host launched what comes next.
enum class ChosenSteps : std::uint8_t { all, of_device };

class Deviation {
  public:
    /// `own_ms`: of the phase, by peer and step. `floor_ms`: what is less separates nobody.
    Deviation(const LocalPhase& phase, const StepMatrix& own_ms, const PeerGroup& group, double floor_ms,
              ChosenSteps steps = ChosenSteps::all);

    [[nodiscard]] const std::vector<std::size_t>& ranks() const { return group_.ranks; }
    /// By step; NaN where there is no row, or the step was not chosen. About 0 for a rank as usual. `peer` is an index
    /// into ranks().
    [[nodiscard]] std::span<const double> excess_ms(std::size_t peer) const {
        return std::span(excess_).subspan(peer * usual_.size(), usual_.size());
    }
    /// What a rank as usual takes in this step.
    [[nodiscard]] double usual_ms(std::size_t step) const { return usual_[step]; }
    /// Whether the ranks are two populations. Then the faster one is what a usual rank is.
    [[nodiscard]] bool is_split() const { return fast_.size() < group_.ranks.size(); }
    /// Peers that a usual rank is one of: all, or the faster population.
    [[nodiscard]] const std::vector<std::size_t>& usual_peers() const { return fast_; }
    /// Robust standard deviation of a rank's steps about its own median.
    [[nodiscard]] double noise_ms() const { return noise_ms_; }
    /// Robust standard deviation of the medians of usual ranks.
    [[nodiscard]] double spread_ms() const { return spread_ms_; }
    /// The same of their medians over so many steps after each other.
    [[nodiscard]] double spread_ms(std::size_t steps) const;
    /// By how much the variance of a mean over neighbouring steps exceeds that of independent ones.
    [[nodiscard]] double inflation() const { return inflation_; }
    /// As many independent values as the noise was taken from.
    [[nodiscard]] double independent_values() const { return independent_values_; }
    /// The chance that noise like that of its own steps puts the mean of all steps of a rank as far above its peers. 1
    /// where that is not known, or less than healthy ranks differ by.
    [[nodiscard]] double chance_of_level(std::size_t peer) const;
    /// How many usual peers have at least so many chosen steps.
    [[nodiscard]] std::size_t peers_with(std::size_t steps) const;

  private:
    void find_excess(const StepMatrix& own_ms);
    void find_fast(double floor_ms);
    void leave_out_late_hosts(const LocalPhase& phase);
    void centre();
    void find_noise();
    [[nodiscard]] std::vector<std::size_t> ranks_of_noise() const;

    const PeerGroup& group_;
    std::vector<double> usual_;
    std::vector<double> excess_;     // by peer, then step
    std::vector<double> medians_;    // of it, by peer
    std::vector<std::size_t> fast_;  // peers that a usual rank is one of
    double noise_ms_ = 0;
    double spread_ms_ = 0;
    double inflation_ = 1;
    double independent_values_ = 0;
};

}  // namespace cep::tool
