// SPDX-License-Identifier: Apache-2.0
//
// Confidence: intervals, and what many tests may claim.
#pragma once

#include <span>
#include <vector>

namespace cep::tool {

inline constexpr double interval_alpha = 0.05;                // intervals are of 95 %
inline constexpr double normal_quantile = 1.959963984540054;  // of 1 − interval_alpha / 2

struct ConfidenceInterval {
    double low = 0;
    double high = 0;
};

/// Holm's step-down correction: below α in the result, the chance of any false claim among all is at most α. In the
/// order of the input.
[[nodiscard]] std::vector<double> correct_by_holm(const std::vector<double>& p_values);

/// A 95 % interval for the median: two order statistics (the sign test's interval). Of `values` that are worth only
/// `values.size() / correlation_time` independent ones it is as wide as theirs. False where there are too few of them.
[[nodiscard]] bool median_interval(const std::vector<double>& values, double correlation_time,
                                   ConfidenceInterval& interval);

/// Pairs of a value of A and one of B in which B's is larger; of equal ones, half.
[[nodiscard]] double count_larger_pairs(std::vector<double> a, std::span<const double> b);

}  // namespace cep::tool
