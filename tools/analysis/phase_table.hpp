// SPDX-License-Identifier: Apache-2.0
//
// Phase table: the statistics of each phase over ranks and steps. Formulas in cep-summarize(1).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "summary.hpp"

namespace cep::analysis {

/// `from_histograms`: the budget was exceeded; folds every sample first.
[[nodiscard]] std::vector<PhaseSummary> summarize_phases(std::map<std::int64_t, std::vector<RunSeries>>& ranks,
                                                         bool from_histograms);

}  // namespace cep::analysis
