// SPDX-License-Identifier: Apache-2.0
#include "read/run_tracker.hpp"

#include <algorithm>

namespace cep::tool {

RunOrder order_of(const RunInfo& run) {
    return {run.start_unix_ns.value_or(INT64_MIN), run.attempt};
}

bool same_run(const RunInfo& a, const RunInfo& b) {
    return a.run_id == b.run_id && a.attempt == b.attempt && a.rank == b.rank;
}

RunTracker::Place RunTracker::observe_run(RankRuns& rank, const RunInfo& run) {
    const auto known =
        std::find_if(rank.runs.begin(), rank.runs.end(), [&run](const RunInfo& other) { return same_run(other, run); });
    const auto index = static_cast<std::size_t>(known - rank.runs.begin());
    const bool in_block = index >= rank.block_begin && index < rank.block_end;
    if (known != rank.runs.end()) {
        *known = run;
        if (!in_block) {
            rank.block_begin = index;
            rank.block_end = index + 1;
        }
        const bool returning = !in_block || (rank.other_rows_since && rank.block_end - rank.block_begin > 1);
        return {static_cast<int>(index), false, returning};
    }
    rank.runs.push_back(run);
    if (rank.other_rows_since) rank.block_begin = index;
    rank.block_end = rank.runs.size();
    rank.other_rows_since = false;
    return {static_cast<int>(index), true, false};
}

int RunTracker::choose(const RankRuns& rank, const Row& row) {
    if (rank.block_end == rank.block_begin) return no_run;
    int chosen = static_cast<int>(rank.block_begin);
    const RunInfo* latest = nullptr;
    for (std::size_t i = rank.block_begin; i < rank.block_end; ++i) {
        const RunInfo& run = rank.runs[i];
        if (row.stats != nullptr && row.stats->attempt && *row.stats->attempt != run.attempt) continue;
        const bool started =
            !row.start_ns || !run.start_unix_ns || *run.start_unix_ns - run.clock_error_ns.value_or(0) <= *row.start_ns;
        if (!started || (latest != nullptr && order_of(run) < order_of(*latest))) continue;
        latest = &run;
        chosen = static_cast<int>(i);
    }
    return chosen;
}

const std::vector<RunInfo>& RunTracker::runs(std::int64_t rank) const {
    static const std::vector<RunInfo> none;
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? none : found->second.runs;
}

}  // namespace cep::tool
