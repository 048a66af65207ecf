// SPDX-License-Identifier: Apache-2.0
//
// Autocorrelation: how much a step's time says of the times of the next steps, and how long blocks of steps must be to
// say little of each other.
#pragma once

#include <cstddef>
#include <vector>

namespace cep::compare {

/// The integrated autocorrelation time in steps, ≥ 1: the variance of a mean of n steps is that of n / τ independent
/// ones. From the ranks of the values, so that single long steps do not hide what the others do. Each series counts
/// around its own middle: what they differ by is no correlation.
[[nodiscard]] double correlation_time_steps(const std::vector<std::vector<double>>& all_series);

/// The length of a block, in recorded steps, for series of that correlation time of which the shortest has `steps`.
[[nodiscard]] std::size_t choose_block_steps(double correlation_time_steps, std::size_t steps);

/// The median of each block of about `block_steps` values. Blocks are of equal length but for one value, and none is
/// left out.
[[nodiscard]] std::vector<double> block_medians(const std::vector<double>& values, std::size_t block_steps);

}  // namespace cep::compare
