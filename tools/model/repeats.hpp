// SPDX-License-Identifier: Apache-2.0
//
// Repeats: steps that a later attempt did again, and rows that are there twice.
#pragma once

#include <cstdint>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

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
