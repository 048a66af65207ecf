// SPDX-License-Identifier: Apache-2.0
//
// Rank tests: whether one sample tends to be larger than another, by how much, and what many such tests may claim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cep::compare {

/// Ranks from 1; equal values share the mean of their ranks.
[[nodiscard]] std::vector<double> midranks(const std::vector<double>& values);

struct ConfidenceInterval {
    double low = 0;
    double high = 0;
};

/// Mann and Whitney's test of two samples, and Hodges and Lehmann's shift from A to B.
struct RankTest {
    double u = 0;              // pairs in which B is larger; equal ones count half
    double p = 1;              // two-sided
    bool exact = false;        // p and interval from all orders of the values; else from the normal approximation
    double rank_biserial = 0;  // from −1 (B smaller in every pair) to 1 (B larger in every pair)
    double shift = 0;          // the median of all differences b − a
    ConfidenceInterval shift_interval;  // 95 %: shifts that the test does not reject
};

/// Neither sample may be empty.
[[nodiscard]] RankTest test_ranks(const std::vector<double>& a, const std::vector<double>& b);

/// Holm's step-down correction: below α in the result, the chance of any false claim among all is at most α. In the
/// order of the input.
[[nodiscard]] std::vector<double> correct_by_holm(const std::vector<double>& p_values);

/// A 95 % interval for the median: two order statistics (the sign test's interval). Of `values` that are worth only
/// `values.size() / correlation_time` independent ones it is as wide as theirs. False where there are too few of them.
[[nodiscard]] bool median_interval(const std::vector<double>& values, double correlation_time,
                                   ConfidenceInterval& interval);

}  // namespace cep::compare
