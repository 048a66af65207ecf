// SPDX-License-Identifier: Apache-2.0
//
// Repeats: steps that a later attempt did again, and rows that are there twice.
#pragma once

#include <cstddef>
#include <cstdint>
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

struct RepeatCounts {
    std::uint64_t superseded_rows = 0;  // removed: the step was repeated by a later attempt
    std::uint64_t duplicate_rows = 0;   // removed: the same row of the same run again
    bool unresolved = false;            // rows in totals of all steps could not be removed
};

/// Leaves each measurement of one rank in `all_series` once, and marks the steps that a later attempt did again. Their
/// rows go if `last_attempt_only`. Rows that belong to no run row are never taken for duplicates.
/// Puts the series into the order of order_series().
RepeatCounts remove_repeats(std::vector<RunSeries>& all_series, bool last_attempt_only);

}  // namespace cep::tool
