// SPDX-License-Identifier: Apache-2.0
//
// How a file check takes rows. What it makes of them is in file_findings.cpp.
#include "check/file_check.hpp"

#include <algorithm>
#include <functional>

#include "base/hash.hpp"
#include "base/units.hpp"

namespace cep::tool {
namespace {

constexpr int choice_bits = 16;  // the lowest of what is kept are those that choose

}  // namespace

void RepeatedRows::take(const Row& row, int run, std::uint64_t line) {
    if (!row.start_ns || !row.seq || !row.step || !row.rank) return;
    // Ranks start some nanoseconds apart: the sum of rank and start may be that of another rank.
    const std::uint64_t choice =
        mix_bits(mix_bits(static_cast<std::uint64_t>(*row.start_ns)) + static_cast<std::uint64_t>(*row.rank));
    if ((choice & mask_) != 0) return;
    std::uint64_t hash = choice;
    for (const std::uint64_t value : {static_cast<std::uint64_t>(*row.step), static_cast<std::uint64_t>(*row.seq),
                                      static_cast<std::uint64_t>(run), std::hash<std::string_view>{}(row.name)})
        hash = mix_bits(hash ^ value);
    if (kept_.size() >= most_kept) leave_half();
    if (kept_.insert(hash << choice_bits | (choice & ((1U << choice_bits) - 1))).second) return;
    if (seen_again_++ == 0) line_ = line;
}

/// As count() multiplies by twice as much then, what was found counts half.
void RepeatedRows::leave_half() {
    mask_ = 2 * mask_ + 1;
    seen_again_ = (seen_again_ + 1) / 2;
    std::erase_if(kept_, [this](std::uint64_t hash) { return (hash & mask_) != 0; });
}

bool Remarks::count(Severity severity, std::string_view code) {
    Counted& counted = counts_[std::string(code)];
    counted.severity = std::max(counted.severity, severity);
    return ++counted.count <= max_of_code;
}

void Remarks::add(Severity severity, std::string_view code, std::string message, std::uint64_t line) {
    if (count(severity, code)) findings_.push_back({severity, std::string(code), std::move(message), line});
}

std::vector<Remark> Remarks::finish() {
    for (const auto& [code, counted] : counts_)
        if (counted.count > max_of_code)
            findings_.push_back(
                {counted.severity, code, "and " + format_count(counted.count - max_of_code) + " more like it", 0});
    return std::move(findings_);
}

Severity worst_of(const std::vector<Remark>& findings) {
    Severity worst = Severity::fine;
    for (const Remark& finding : findings) worst = std::max(worst, finding.severity);
    return worst;
}

namespace {

/// A later step of a phase that starts so much earlier was timed by a clock that somebody had set.
constexpr std::int64_t least_clock_step_ns = 1'000'000'000;
/// Starts on one stream may be wrong by so much against each other.
constexpr std::int64_t start_tolerance_ns = 1'000'000;

double nanoseconds_between(std::int64_t from_ns, std::int64_t to_ns) {
    return static_cast<double>(to_ns) - static_cast<double>(from_ns);
}

}  // namespace

FileCheck::RunState& FileCheck::RankState::run(int index) {
    const auto position = static_cast<std::size_t>(index + 1);
    if (runs.size() <= position) runs.resize(position + 1);
    return runs[position];
}

FileCheck::OrderErrors& FileCheck::RankState::order_errors() {
    if (!errors) errors = std::make_unique<OrderErrors>();
    return *errors;
}

FileCheck::RankState& FileCheck::state_of(std::int64_t rank) {
    if (last_rank_ != rank) {
        last_state_ = &ranks_[rank];
        last_rank_ = rank;
    }
    return *last_state_;
}

void FileCheck::take(const Row& row, RunOfRow assigned, std::uint64_t line) {
    if (!row.odd_key.empty() && odd_rows_++ == 0) {
        odd_line_ = line;
        odd_key_ = row.odd_key;
    }
    if (!row.rank || row.type == RowType::unknown) return;
    RankState& state = state_of(*row.rank);
    ++state.rows;
    if (row.type == RowType::run) take_run(row, assigned, state, line);
    if (row.stride != nullptr) take_stride_change(*row.stride);
    if (row.type == RowType::stats) take_stats(row, assigned, state, line);
    if (row.type == RowType::span) take_span(row, assigned.index, state, line);
    if (row.type == RowType::span || row.type == RowType::open) open_spans_.take(row, assigned.attempt(), line);
}

void FileCheck::end(const RunTracker& runs) {
    runs_ = &runs;
    for (auto& [rank, state] : ranks_)
        for (RunState& run : state.runs) run.steps.sort();
}

void FileCheck::take_run(const Row& row, RunOfRow assigned, RankState& state, std::uint64_t line) {
    coverage_.saw_run(*row.run);
    schema_ = std::max(schema_, row.run->schema);
    clock_error_ns_ = std::max(clock_error_ns_, row.run->clock_error_ns.value_or(0));
    if (row.run->record_every_n_steps) strides_.insert(*row.run->record_every_n_steps);
    if (assigned.is_ignored) return;
    RunState& run = state.run(assigned.index);
    if (!run.has_run_row) run.pid = row.run->pid;
    run.has_run_row = true;
    if (assigned.is_returning || run.pid != row.run->pid) state.order_errors().interleaved.add(line);
    if (assigned.index == state.current_run) return;
    state.current_run = assigned.index;
    ++state.run_changes;
}

void FileCheck::take_stride_change(const StrideChange& change) {
    if (stride_changes_)
        stride_changes_->add(change);
    else
        stride_changes_ = change;
}

// Counts of an attempt only grow, and an attempt that has ended writes no more.
void FileCheck::take_stats(const Row& row, RunOfRow assigned, RankState& state, std::uint64_t line) {
    const bool of_other_attempt =
        assigned.start != nullptr && row.stats->attempt && *row.stats->attempt != assigned.attempt();
    std::unique_ptr<StatsRow>& last = state.run(assigned.index).stats;
    const bool shrinks = last && row.stats->recorded < last->recorded;
    if (of_other_attempt || shrinks) state.order_errors().interleaved.add(line);
    if (!last || !(of_other_attempt || shrinks)) last = std::make_unique<StatsRow>(*row.stats);
}

void FileCheck::take_span(const Row& row, int run, RankState& state, std::uint64_t line) {
    state.has_full_spans |= row.start_ns && row.clock != Clock::none;
    repeated_rows_.take(row, run, line);
    const LastSpan now{*row.step, row.seq.value_or(-1), row.stream.value_or(-1), row.start_ns, run, state.run_changes};
    const auto found = state.last_spans.find(row.name);
    const bool is_known = found != state.last_spans.end();
    const bool is_first = !is_known || found->second.run_changes != state.run_changes;
    const bool is_new_step = is_first || found->second.step != now.step || found->second.run != run;
    if (is_new_step) take_step(row, state.run(run));
    if (!is_first) {
        if (check_order(found->second, now, state, line)) found->second = now;
    } else if (is_known) {
        found->second = now;
    } else if (phases_ < max_phases) {
        ++phases_;
        state.last_spans.emplace(row.name, now);
    } else {
        has_too_many_phases_ = true;
    }
}

/// Takes the first span of a phase in a step.
void FileCheck::take_step(const Row& row, RunState& run) {
    if (run.last_new_step == row.step && run.first_start_ns) return;
    if (run.last_new_step != row.step) run.steps.add(*row.step);
    if (!run.last_new_step || *row.step > *run.last_new_step) run.last_new_step = row.step;
    if (!row.start_ns || run.first_start_ns) return;
    run.first_step = *row.step;
    run.first_start_ns = row.start_ns;
}

/// Returns whether `now` becomes the last span of its phase. A span that ends on another thread may be written after
/// spans of the same name that began later. Its step is lower too, but its start shows that steps do not go back:
/// within an attempt there is one clock.
bool FileCheck::check_order(const LastSpan& last, const LastSpan& now, RankState& state, std::uint64_t line) {
    const bool starts_earlier =
        now.run != RunOfRow::none && now.start_ns && last.start_ns && *now.start_ns < *last.start_ns;
    if (now.step < last.step && !starts_earlier) state.order_errors().steps_back.add(line, last.step, now.step);
    if (!starts_earlier) return true;
    const bool is_later_step = now.run == last.run && now.step > last.step;
    const bool is_later_seq = now.run == last.run && now.step == last.step && last.seq >= 0 && now.seq > last.seq;
    const double earlier_ns = nanoseconds_between(*now.start_ns, *last.start_ns);
    if (is_later_step && earlier_ns > static_cast<double>(least_clock_step_ns)) {
        state.order_errors().clock_back.add(line, *last.start_ns, *now.start_ns);
        return true;
    }
    const bool on_one_stream = (is_later_step || is_later_seq) && now.stream == last.stream;
    if (on_one_stream && earlier_ns > static_cast<double>(start_tolerance_ns))
        state.order_errors().starts_back.add(line, *last.start_ns, *now.start_ns);
    return false;
}

}  // namespace cep::tool
