// SPDX-License-Identifier: Apache-2.0
//
// Summary groups: the phase table of each rank, host or window of steps by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "summary/summary.hpp"

namespace cep::tool {

/// Nothing for Grouping::By::phase. Throws UsageError for windows of steps where durations are in histograms, which
/// know no steps.
[[nodiscard]] std::vector<GroupSummary> summarize_groups(const Grouping& grouping,
                                                         std::map<std::int64_t, std::vector<RunSeries>>&& ranks,
                                                         bool in_histograms, std::size_t threads);

/// The groups that tell most, at most `limit` of them (0: all): those with the highest excess, in that order; windows
/// of steps stay in the order of time.
[[nodiscard]] std::vector<const GroupSummary*> telling_groups(const SummaryResult& result, std::size_t limit);

}  // namespace cep::tool
