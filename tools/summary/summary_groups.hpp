// SPDX-License-Identifier: Apache-2.0
//
// Summary groups: the phase table of each rank, host or window of steps by itself.
#pragma once

#include <cstddef>
#include <vector>

#include "summary/summary.hpp"

namespace cep::tool {

/// Nothing for Grouping::By::phase. Throws UsageError for windows of steps where not all steps are kept, which
/// know no steps.
[[nodiscard]] std::vector<GroupSummary> summarize_groups(const Job& job, const Grouping& grouping, std::size_t threads,
                                                         const Ledger* ledger);

}  // namespace cep::tool
