// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_rows.hpp"

#include <algorithm>
#include <cmath>

namespace cep::tool {

void TraceFacts::merge(TraceFacts&& other) {
    coverage.merge(other.coverage);
    ranks.merge(other.ranks);
    still_open.merge(other.still_open);
    for (const auto& [rank_and_step, attempt] : other.last_attempts)
        last_attempts[rank_and_step] = std::max(last_attempts[rank_and_step], attempt);
}

std::int64_t shown_ns(double duration_ms) {
    return std::max<std::int64_t>(0, std::llround(duration_ms * 1e6));
}

// The difference of numbers that may be any.
std::int64_t shown_start_ns(const Row& row, const ClockShifts& clocks) {
    const std::int64_t ahead_ns = clocks.any() && row.step ? clocks.ahead_ns(*row.rank, *row.step) : 0;
    std::int64_t start_ns = 0;
    return __builtin_sub_overflow(*row.start_ns, ahead_ns, &start_ns) ? *row.start_ns : start_ns;
}

void FileTrace::note(const Row& row) {
    if (!filter_.asked.accepts_rank(*row.rank)) return;
    facts_.coverage.take(row);
    if (row.type != RowType::run || !filter_.shown.accepts_rank(*row.rank)) return;
    RunInfo& run = facts_.ranks[*row.rank] = *row.run;
    run.listed_ranks.reset();  // every rank's run row may list all ranks
}

void FileTrace::take(const Row& row, RunOfRow run, std::uint64_t line) {
    if (!row.rank) return;
    note(row);
    const std::int64_t attempt = run.attempt();
    const bool is_shown = row.type != RowType::run && row.type != RowType::stats && row.type != RowType::unknown;
    const bool is_of_attempt = filter_.attempt.mode != AttemptChoice::Mode::one || attempt == filter_.attempt.attempt;
    if (is_shown && is_of_attempt && filter_.shown.accepts(row)) add(row, attempt, line);
}

void FileTrace::add(const Row& row, std::int64_t attempt, std::uint64_t line) {
    open_spans_.take(row, attempt, line);
    RowEntry entry;
    entry.first = row.start_ns ? shown_start_ns(row, clocks_) : INT64_MIN;
    entry.second = -shown_ns(row.type == RowType::open ? row.elapsed_ms : row.duration_ms);
    entry.third = *row.rank;
    entry.run = static_cast<std::uint32_t>(attempt) & RowEntry::max_run;
    entry.is_span = row.type == RowType::span;
    collector_.add(entry, row.text);
    if (entry.is_span && entry.run > 1 && filter_.attempt.mode == AttemptChoice::Mode::last) {
        std::uint32_t& last = facts_.last_attempts[{*row.rank, *row.step}];
        last = std::max(last, static_cast<std::uint32_t>(entry.run));
    }
    if (row.type == RowType::open) open_positions_[line] = entry.index;
}

void FileTrace::end(const RunTracker& /*runs*/) {
    collector_.end();
    for (const OpenSpan& span : open_spans_.all()) {
        const auto position = open_positions_.find(span.line);
        if (position != open_positions_.end()) facts_.still_open.emplace(index_, position->second);
    }
}

}  // namespace cep::tool
