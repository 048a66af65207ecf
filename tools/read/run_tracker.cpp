// SPDX-License-Identifier: Apache-2.0
#include "read/run_tracker.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace cep::tool {

RunOrder order_of(const RunInfo& run) {
    return {run.start_unix_ns.value_or(INT64_MIN), run.attempt};
}

bool same_run(const RunInfo& a, const RunInfo& b) {
    return a.run_id == b.run_id && a.attempt == b.attempt && a.rank == b.rank;
}

RunTracker::Place RunTracker::observe_run(RankRuns& rank, const RunInfo& run) {
    if (rank.index == nullptr) rank.index = std::make_unique<Index>();
    const auto [known, is_new] = rank.index->by_id.try_emplace({run.run_id, run.attempt}, rank.runs.size());
    const std::size_t index = known->second;
    if (!is_new) {
        const bool in_block = index >= rank.block_begin && index < rank.block_end;
        RunInfo& old = rank.runs[index];
        if (!in_block || old.start_unix_ns != run.start_unix_ns || old.clock_error_ns != run.clock_error_ns)
            rank.index->started.clear();
        old = run;
        if (!in_block) {
            rank.block_begin = index;
            rank.block_end = index + 1;
        }
        const bool returning = !in_block || (rank.other_rows_since && rank.block_end - rank.block_begin > 1);
        return {static_cast<int>(index), false, returning};
    }
    rank.index->started.clear();
    rank.runs.push_back(run);
    if (rank.other_rows_since) rank.block_begin = index;
    rank.block_end = rank.runs.size();
    rank.other_rows_since = false;
    return {static_cast<int>(index), true, false};
}

void RunTracker::list_started(RankRuns& rank) {
    const auto start_of = [](const RunInfo& run) {
        return run.start_unix_ns ? *run.start_unix_ns - run.clock_error_ns.value_or(0) : INT64_MIN;
    };
    const auto make_list = [&](bool by_attempt) {
        std::vector<Started> list;
        for (std::size_t i = rank.block_begin; i < rank.block_end; ++i)
            list.push_back({by_attempt ? rank.runs[i].attempt : 0, start_of(rank.runs[i]), i});
        std::sort(list.begin(), list.end(), [](const Started& a, const Started& b) {
            return std::tie(a.attempt, a.time_ns, a.run) < std::tie(b.attempt, b.time_ns, b.run);
        });
        const auto later = [&rank](std::size_t a, std::size_t b) {
            return std::tuple(order_of(rank.runs[a]), a) > std::tuple(order_of(rank.runs[b]), b);
        };
        for (std::size_t i = 1; i < list.size(); ++i)
            if (list[i].attempt == list[i - 1].attempt && later(list[i - 1].run, list[i].run))
                list[i].run = list[i - 1].run;
        return list;
    };
    rank.index->started = make_list(false);
    rank.index->started_by_attempt = make_list(true);
}

int RunTracker::choose(RankRuns& rank, const Row& row) {
    if (rank.block_end == rank.block_begin) return no_run;
    if (rank.index->started.empty()) list_started(rank);
    const bool by_attempt = row.stats != nullptr && row.stats->attempt;
    const std::int64_t attempt = by_attempt ? *row.stats->attempt : 0;
    const std::int64_t time_ns = row.start_ns.value_or(INT64_MAX);
    const auto& list = by_attempt ? rank.index->started_by_attempt : rank.index->started;
    const auto behind = std::partition_point(list.begin(), list.end(), [&](const Started& started) {
        return std::tie(started.attempt, started.time_ns) <= std::tie(attempt, time_ns);
    });
    const bool any = behind != list.begin() && std::prev(behind)->attempt == attempt;
    return static_cast<int>(any ? std::prev(behind)->run : rank.block_begin);
}

const std::vector<RunInfo>& RunTracker::runs(std::int64_t rank) const {
    static const std::vector<RunInfo> none;
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? none : found->second.runs;
}

}  // namespace cep::tool
