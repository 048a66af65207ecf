// SPDX-License-Identifier: Apache-2.0
//
// Phase table: the statistics of each phase over ranks and steps. Formulas in cep-summarize(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "summary/summary.hpp"

namespace cep::tool {

/// Step spans first, then by total time. `series` come rank by rank. The same to the last bit for any number of
/// threads.
[[nodiscard]] std::vector<PhaseSummary> summarize_phases(const std::vector<SeriesOfRank>& series, std::size_t threads);

}  // namespace cep::tool
