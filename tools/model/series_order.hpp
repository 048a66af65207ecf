// SPDX-License-Identifier: Apache-2.0
//
// Series order: one order of the series of a rank, whatever order their files were read in.
#pragma once

#include <cstddef>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

/// Sorts the series of one rank in time. Rows before any run row come from before the first attempt that says what it
/// is. Attempts are numbered in the file of a rank; where every number is there once, they say more than the clocks of
/// the hosts that the rank was on. What is equal in all that is ordered by what the series hold: sums and choices that
/// follow this order are the same for every order of the inputs.
void order_series(std::vector<RunSeries>& all_series);

/// For series in that order: which of the runs of the rank each belongs to, counted from 0.
[[nodiscard]] std::vector<std::size_t> number_runs(const std::vector<RunSeries>& ordered);

}  // namespace cep::tool
