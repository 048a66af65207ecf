// SPDX-License-Identifier: Apache-2.0
//
// Robust statistics. Values that are NaN are missing and left out everywhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "stats/quantiles.hpp"

namespace cep::tool {

/// The median absolute deviation of normal values times this is their standard deviation: 1 / Φ⁻¹(3/4).
inline constexpr double normal_consistency = 1.4826022185056018;

[[nodiscard]] inline bool is_missing(double value) {
    return std::isnan(value);
}

/// NaN for none.
[[nodiscard]] double mean_of(std::span<const double> values);

/// Standard deviation of normal values, from their median absolute deviation.
[[nodiscard]] double robust_deviation(std::span<const double> values);
[[nodiscard]] double robust_deviation(std::span<const double> values, double median);

/// Standard deviation of normal values of which up to a quarter may be much larger: the larger of two figures, because
/// of few values each is often too small. At least one value, none missing.
[[nodiscard]] double spread_of(std::vector<double> values);

/// How many of the lowest of some levels lie together below a gap that nothing of their own resembles; all of them
/// where there is no such gap. The others may be any number, but if they are more than half, they must lie together
/// too. `least_gap`: no smaller one counts; `least_gap_of_most`: the same where more than half lie above it.
[[nodiscard]] std::size_t count_below_gap(std::vector<double> levels, double least_gap, double least_gap_of_most);

/// E[size²] / E[size] of bursts: values beyond the threshold that follow each other by less than `pause` positions. At
/// least one is beyond it.
[[nodiscard]] double burst_size(std::span<const double> values, double threshold, std::size_t pause);

/// Correlation of neighbouring values, which are cut off at `limit` from their `median`; NaN of too few.
[[nodiscard]] double lag_correlation(std::span<const double> values, double median, double limit);

/// The median of each value and of up to `reach` neighbours on either side. None of the values is missing.
[[nodiscard]] std::vector<double> moving_medians(std::span<const double> values, std::size_t reach);

/// P(X > x) of a standard normal X.
[[nodiscard]] double normal_tail(double x);

/// The same of Student's distribution. `freedom`: degrees of freedom, above 0.
[[nodiscard]] double student_tail(double t, double freedom);
/// Where that is `tail`, for 0 < tail < 0.5.
[[nodiscard]] double student_quantile(double tail, double freedom);
/// P(X ≥ k) for X binomial with n trials of probability p, summed from the largest term down.
[[nodiscard]] double binomial_tail(std::size_t k, std::size_t n, double p);

/// A range of positions, both ends inclusive.
struct Segment {
    std::size_t first = 0;
    std::size_t last = 0;

    [[nodiscard]] std::size_t length() const { return last - first + 1; }
    [[nodiscard]] bool contains(std::size_t at) const { return first <= at && at <= last; }
};

/// The contiguous range with the largest sum of scores (Kadane); of equals the first. `scores` is not empty.
[[nodiscard]] Segment best_segment(std::span<const double> scores);

}  // namespace cep::tool
