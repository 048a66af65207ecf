// SPDX-License-Identifier: Apache-2.0
//
// Slow steps: which steps of one rank and phase are slow, and whether that can be chance.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "verdict/deviation.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {

/// What all ranks of a search have in common.
struct SearchScale {
    double floor_ms = 0;      // below it, nothing is reported
    double tests = 1;         // ranks times phases that are looked at
    double threshold_ms = 0;  // a single step above it is not a usual one
};

/// How many of its standard deviations noise does not exceed: the more, the fewer independent values that is taken
/// from.
[[nodiscard]] double noise_multiple(const Deviation& deviation);
/// The same of the spread of the medians of so many ranks or windows.
[[nodiscard]] double spread_multiple(std::size_t medians);

/// How often the ranks of a role exceed something, and how many of such steps come together: one after the other, they
/// count as one.
class Exceedances {
  public:
    Exceedances(const Deviation& deviation, double threshold_ms);

    /// The chance that a rank has its share of all such steps and bursts or more, if it is like the usual ranks.
    [[nodiscard]] double chance_of(std::size_t peer) const;
    /// The same of some of its steps.
    [[nodiscard]] double chance_of(std::size_t peer, double own_count, double own_steps) const;
    /// The count of the usual ranks but this one.
    [[nodiscard]] double count_of_others(std::size_t peer) const {
        return usual_count_ - (is_usual_[peer] ? counts_[peer] : 0);
    }
    [[nodiscard]] double bursts_of(std::size_t peer) const { return counts_[peer] / burst_for(peer); }

  private:
    [[nodiscard]] double burst_for(std::size_t peer) const;

    std::vector<double> counts_;  // by peer
    std::vector<double> steps_;
    std::vector<bool> is_usual_;
    double usual_count_ = 0;
    double usual_steps_ = 0;
    std::vector<double> bursts_;        // by peer: E[size²] / E[size] of its bursts
    std::vector<double> rows_;          // by peer: the same of steps one after the other, at most a few
    std::vector<double> usual_bursts_;  // of usual ranks, ascending
    std::vector<double> usual_rows_;
};

/// The same of several thresholds, of which those that nearly agree share one.
class ExceedancesByThreshold {
  public:
    explicit ExceedancesByThreshold(const Deviation& deviation) : deviation_(deviation) {}
    [[nodiscard]] const Exceedances& of(double threshold_ms);

  private:
    const Deviation& deviation_;
    std::map<long, Exceedances> exceedances_;  // by 16 times the binary logarithm of the threshold
};

/// The chance that noise alone makes the median of all steps of a rank as long.
[[nodiscard]] double chance_of_all_steps(const Deviation& deviation, std::size_t peer);

/// None where the rank is as usual. rank, phase, cost and waiting are for the caller to fill in.
[[nodiscard]] std::optional<Straggler> find_slow_steps(const Deviation& deviation, std::size_t peer,
                                                       ExceedancesByThreshold& exceedances, const SearchScale& scale);

}  // namespace cep::tool
