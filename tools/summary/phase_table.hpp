// SPDX-License-Identifier: Apache-2.0
//
// Phase table: the statistics of each phase over ranks and steps, and of each rank, host or window of steps by itself.
// Formulas in cep-summarize(1).
#pragma once

#include <cstddef>
#include <vector>

#include "summary/summary.hpp"

namespace cep::tool {

/// Spans of one phase of one series: all, or those of some of its steps.
struct SpansOfPhase : SeriesOfPhase {
    std::size_t first = 0;  // of its samples
    std::size_t last = 0;   // behind the last
};

/// All of the series.
void add_spans(SeriesOfRank of, std::vector<SpansOfPhase>& spans);

/// Step spans first, then by total time. `spans` come rank by rank. The same to the last bit for any number of
/// threads.
[[nodiscard]] std::vector<PhaseSummary> summarize_phases(const std::vector<SpansOfPhase>& spans, std::size_t threads);

/// Nothing for Grouping::By::phase. Throws UsageError for windows of steps where not all steps are kept.
[[nodiscard]] std::vector<GroupSummary> summarize_groups(const Job& job, const Grouping& grouping, std::size_t threads,
                                                         const Ledger* ledger);

}  // namespace cep::tool
