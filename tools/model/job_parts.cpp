// SPDX-License-Identifier: Apache-2.0
#include "model/job_parts.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "model/series_order.hpp"

namespace cep::tool {

void JobParts::merge(JobParts&& other) {
    ranks.merge(other.ranks);  // those that are new
    for (auto& [rank, all_series] : other.ranks)
        std::move(all_series.begin(), all_series.end(), std::back_inserter(ranks[rank]));
    std::move(other.open_spans.begin(), other.open_spans.end(), std::back_inserter(open_spans));
    for (auto& [name, mark] : other.marks) {
        MarkCount& all = marks[name];
        all.ranks.merge(mark.ranks);
        all.steps.merge(mark.steps);
        all.count += mark.count;
    }
    coverage.merge(other.coverage);
    left_out_ranks += other.left_out_ranks;
    left_out_runs += other.left_out_runs;
}

void JobParts::thin(StepChoice wanted) {
    if (wanted <= choice) return;
    choice = wanted;
    for (auto& [rank, all_series] : ranks)
        for (RunSeries& series : all_series) series.thin(choice);
}

void JobParts::order() {
    for (auto& [rank, all_series] : ranks) order_series(all_series);
    std::sort(open_spans.begin(), open_spans.end(), [](const OpenSpan& a, const OpenSpan& b) {
        return std::tie(a.rank, a.attempt, a.step, a.name, a.start_ns, a.elapsed_ms, a.line) <
               std::tie(b.rank, b.attempt, b.step, b.name, b.start_ns, b.elapsed_ms, b.line);
    });
}

}  // namespace cep::tool
