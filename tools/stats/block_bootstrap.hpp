// SPDX-License-Identifier: Apache-2.0
//
// Block bootstrap: intervals for the mean of a series whose values are alike if they are near, and may be far larger at
// times; and for the ratio of two such means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stats/confidence.hpp"

namespace cep::tool {

/// How well the mean of a series is known.
struct MeanVariance {
    double variance = 0;          // of the mean
    double correlation_time = 1;  // the values are worth so many times fewer independent ones; at least 1
    double freedom = 1;           // degrees of freedom of the variance
    double widening = 1;          // the standard deviation of the mean by that of the means of resampled blocks
};

/// From the values themselves, however much neighbours resemble each other. At least one value.
[[nodiscard]] MeanVariance variance_of_mean(std::span<const double> values);

/// The mean of a series, and what resamples of its blocks say of it.
class MeanBootstrap {
  public:
    static constexpr std::size_t resamples = 999;
    static constexpr std::size_t least_blocks = 3;  // of a series: no longer blocks are chosen

    /// Values that are larger at every n-th position, such as those of a step with a checkpoint.
    struct Season {
        double excess = 0;    // of the large ones
        double fraction = 0;  // of a period, that is left behind the last whole one
    };

    /// `values`: not negative, in their order, at least one. `block`: values in a block; 0: from the data. `seed`:
    /// other ones for series that are compared.
    MeanBootstrap(std::span<const double> values, std::size_t block, std::uint64_t seed);

    [[nodiscard]] double mean() const { return mean_; }
    [[nodiscard]] std::size_t block() const { return block_; }
    /// The variance of the mean.
    [[nodiscard]] double variance() const { return of_mean_.variance; }
    [[nodiscard]] double correlation_time() const { return of_mean_.correlation_time; }
    [[nodiscard]] double freedom() const { return of_mean_.freedom; }
    /// For each resample: the logarithm of its mean, less that of the mean. None where all values are 0.
    [[nodiscard]] const std::vector<double>& deviations() const { return deviations_; }

  private:
    void resample(std::span<const double> series, double least, const Season& season, std::uint64_t seed);

    double mean_ = 0;
    MeanVariance of_mean_;
    std::size_t block_ = 1;
    std::vector<double> deviations_;
};

/// The change from one mean to another.
struct MeanChange {
    std::optional<double> change;  // of the first mean; none where that is 0
    ConfidenceInterval interval;   // 95 % of `change`; above −1
    double p = 1;                  // two-sided; at most 0.05 where the interval leaves 0 out
};
/// `factor` multiplies what comes after.
[[nodiscard]] MeanChange compare_means(const MeanBootstrap& before, const MeanBootstrap& after, double factor = 1);

/// A 95 % interval of the mean itself.
[[nodiscard]] ConfidenceInterval mean_interval(const MeanBootstrap& series);

/// The best length of circular blocks for the mean of a series, 1 or more.
[[nodiscard]] double best_block(std::span<const double> values);

}  // namespace cep::tool
