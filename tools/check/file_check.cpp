// SPDX-License-Identifier: Apache-2.0
//
// The part of the checker that looks at one file.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "check/checker.hpp"

namespace cep::tool {
namespace {

constexpr std::int64_t noteworthy_clock_error_ns = 1'000'000;
/// A later step of a phase that starts so much earlier was timed by a clock that somebody had set.
constexpr std::int64_t least_clock_step_ns = 1'000'000'000;

void add(FileVerdict& verdict, Severity severity, std::string code, std::string message, std::uint64_t line = 0) {
    verdict.findings.push_back({severity, std::move(code), std::move(message), line});
}

}  // namespace

FileCheck::RankState& FileCheck::state_of(std::int64_t rank) {
    if (last_rank_ != rank) {
        last_state_ = &ranks_[rank];
        last_rank_ = rank;
    }
    return *last_state_;
}

std::int64_t FileCheck::attempt_of(std::int64_t rank, int run) const {
    return run == RunTracker::no_run ? 1 : tracker_.runs(rank)[static_cast<std::size_t>(run)].attempt;
}

void FileCheck::take(const Row& row, std::uint64_t line) {
    if (!row.odd_key.empty() && odd_rows_++ == 0) {
        odd_line_ = line;
        odd_key_ = row.odd_key;
    }
    if (!row.rank || row.type == RowType::unknown) return;
    const RunTracker::Place place = tracker_.observe(row);
    RankState& state = state_of(*row.rank);
    ++state.rows;
    if (row.type == RowType::run) take_run(row, place, state, line);
    if (row.type == RowType::stats) take_stats(row, place.run, state, line);
    if (row.type == RowType::span) take_span(row, place.run, state, line);
    if (row.type == RowType::span || row.type == RowType::open)
        open_spans_.take(row, attempt_of(*row.rank, place.run), line);
}

void FileCheck::take_run(const Row& row, const RunTracker::Place& place, RankState& state, std::uint64_t line) const {
    const auto [known, is_new] = state.pids.try_emplace(place.run, row.run->pid);
    const bool other_process = !is_new && known->second != row.run->pid;
    if ((place.returning || other_process) && state.interleaved_line == 0) state.interleaved_line = line;
    if (place.run == state.current_run) return;
    state.current_run = place.run;
    state.last_spans.clear();
}

// Counts of an attempt only grow, and an attempt that has ended writes no more.
void FileCheck::take_stats(const Row& row, int run, RankState& state, std::uint64_t line) const {
    const bool of_other_attempt =
        run != RunTracker::no_run && row.stats->attempt && *row.stats->attempt != attempt_of(*row.rank, run);
    const auto [last, is_new] = state.stats.try_emplace(run, *row.stats);
    const bool shrinks = !is_new && row.stats->recorded < last->second.recorded;
    if ((of_other_attempt || shrinks) && state.interleaved_line == 0) state.interleaved_line = line;
    if (!of_other_attempt && !shrinks) last->second = *row.stats;
}

// A span that ends on another thread may be written after those of the same name that began later. Its step is lower
// too, but within an attempt the clock is one, and tells that steps do not go back.
void FileCheck::take_span(const Row& row, int run, RankState& state, std::uint64_t line) {
    const StepOfRun now{*row.step, run};
    const auto [found, is_new] = state.last_spans.try_emplace(std::string(row.name), LastSpan{now, row.start_ns});
    LastSpan& last = found->second;
    const bool is_late = run != RunTracker::no_run && row.start_ns && last.start_ns && *row.start_ns < *last.start_ns;
    const bool clock_went_back = is_late && now.run == last.of.run && now.step > last.of.step &&
                                 *last.start_ns - *row.start_ns > least_clock_step_ns;
    if (clock_went_back && state.clock_back_line == 0) {
        state.clock_back_line = line;
        state.clock_back_ns = *last.start_ns - *row.start_ns;
    }
    if (now.step < last.of.step && !is_late && state.times_back++ == 0) {
        state.back_line = line;
        state.back_from = last.of.step;
        state.back_to = now.step;
    }
    if (is_new || last.of != now) {
        // The set is asked when the rank has moved on, not for each of its phases.
        if (state.last_noted != now) {
            std::set<std::int64_t>& steps = state.steps[run];
            steps.insert(steps.end(), now.step);
        }
        state.last_noted = now;
        if (row.start_ns) state.first_starts.try_emplace(run, FirstStart{now.step, *row.start_ns});
    }
    if (!is_late || clock_went_back) last = {now, row.start_ns};
}

void FileCheck::find_damage(FileVerdict& verdict) const {
    const FileReport& report = verdict.report;
    if (!report.unreadable.empty()) add(verdict, Severity::damaged, "unreadable", report.unreadable);
    if (report.cut_off) add(verdict, Severity::incomplete, "cut_off", "cut off at its end", report.lines);
    if (report.skipped_rows > 0)
        add(verdict, Severity::damaged, "rows_skipped", format_plural(report.skipped_rows, "row") + " skipped");
    const std::uint64_t elsewhere = report.skipped_rows + (report.cut_off ? 1 : 0);
    if (report.damage_count > elsewhere) add(verdict, Severity::damaged, "damage", "damage between rows");
    if (report.unreadable.empty() && report.rows + report.damage_count == 0)
        add(verdict, Severity::note, "empty", "no rows");
}

void FileCheck::find_odd_rows(FileVerdict& verdict) const {
    const std::uint64_t unknown = verdict.report.rows_by_type[static_cast<std::size_t>(RowType::unknown)];
    if (unknown > 0)
        add(verdict, Severity::note, "unknown_type",
            format_plural(unknown, "row") + " of a type that this version does not know");
    if (odd_rows_ > 0)
        add(verdict, Severity::note, "odd_value",
            fmt::format("{} with an unexpected type of value, first for \"{}\"", format_plural(odd_rows_, "row"),
                        printable(odd_key_)),
            odd_line_);
}

void FileCheck::find_other_ranks(FileVerdict& verdict) const {
    if (!name_rank_) return;
    for (const auto& [rank, state] : ranks_)
        if (rank != *name_rank_)
            add(verdict, Severity::damaged, "other_rank",
                fmt::format("{} of rank {} in the file of rank {}", format_plural(state.rows, "row"), rank,
                            *name_rank_));
}

void FileCheck::find_order(FileVerdict& verdict) const {
    for (const auto& [rank, state] : ranks_) {
        if (state.interleaved_line > 0)
            add(verdict, Severity::damaged, "interleaved",
                fmt::format("two processes write rows of rank {} in turn", rank), state.interleaved_line);
        if (state.clock_back_line > 0)
            add(verdict, Severity::note, "clock_back",
                fmt::format(
                    "the clock of rank {} goes back by {} or more within an attempt: start times before and after "
                    "do not belong together",
                    rank, format_duration_ms(static_cast<double>(state.clock_back_ns) * 1e-6)),
                state.clock_back_line);
        if (state.times_back == 0) continue;
        std::string message =
            fmt::format("steps go back from {} to {}", format_integer(state.back_from), format_integer(state.back_to));
        if (state.times_back > 1) message += fmt::format(", and {} more", format_plural(state.times_back - 1, "time"));
        message +=
            state.current_run == RunTracker::no_run ? ": a restart that no run row tells?" : " within an attempt";
        add(verdict, Severity::note, "steps_back", message, state.back_line);
    }
}

void FileCheck::find_runs(FileVerdict& verdict) const {
    std::int64_t schema = 0;
    std::int64_t clock_error_ns = 0;
    for (const auto& [rank, state] : ranks_)
        for (const RunInfo& run : tracker_.runs(rank)) {
            schema = std::max(schema, run.schema);
            clock_error_ns = std::max(clock_error_ns, run.clock_error_ns.value_or(0));
        }
    if (schema > schema::version)
        add(verdict, Severity::note, "schema", fmt::format("schema {} is newer than this version reads", schema));
    if (clock_error_ns > noteworthy_clock_error_ns)
        add(verdict, Severity::note, "clock_error",
            fmt::format("start times are only good to {}",
                        format_duration_ms(static_cast<double>(clock_error_ns) * 1e-6)));
}

// Where each attempt number is there once, it says more than clocks: the host of a later attempt may be behind.
bool FileCheck::attempts_are_numbered() const {
    std::set<std::int64_t> attempts;
    std::set<std::pair<std::string, std::int64_t>> runs;
    for (const auto& [rank, state] : ranks_)
        for (const RunInfo& run : tracker_.runs(rank)) {
            attempts.insert(run.attempt);
            runs.emplace(run.run_id, run.attempt);
        }
    return attempts.size() == runs.size();
}

// Of ranks that have run rows; if none has, of all.
FileCheck::StepsOfAttempts FileCheck::steps_of_attempts() const {
    StepsOfAttempts result;
    const bool numbered = attempts_are_numbered();
    const auto order = [numbered](const RunInfo& run) { return numbered ? RunOrder{0, run.attempt} : order_of(run); };
    const bool any_runs = std::any_of(ranks_.begin(), ranks_.end(),
                                      [this](const auto& rank) { return !tracker_.runs(rank.first).empty(); });
    for (const auto& [rank, state] : ranks_) {
        const std::vector<RunInfo>& runs = tracker_.runs(rank);
        if (any_runs && runs.empty()) continue;
        for (const RunInfo& run : runs) result[{order(run), run.run_id, run.attempt}];
        for (const auto& [index, steps] : state.steps) {
            const bool known = index != RunTracker::no_run;
            const RunInfo run = known ? runs[static_cast<std::size_t>(index)] : RunInfo{};
            const RunOrder place = known ? order(run) : RunOrder{INT64_MIN, INT64_MIN};
            result[{place, run.run_id, run.attempt}].insert(steps.begin(), steps.end());
        }
    }
    return result;
}

// Ranks of a merged file start an attempt at slightly different times: they are one attempt.
void FileCheck::find_attempts(FileVerdict& verdict) const {
    std::set<std::int64_t> all_steps;
    std::vector<std::pair<AttemptCheck, std::set<std::int64_t>>> attempts;
    std::map<std::pair<std::string, std::int64_t>, std::size_t> indices;
    for (auto& [key, steps] : steps_of_attempts()) {
        const auto& [order, run_id, number] = key;
        const auto [index, is_new] = indices.try_emplace({run_id, number}, attempts.size());
        if (is_new) attempts.push_back({{run_id, number, 0, std::nullopt, 0}, {}});
        attempts[index->second].second.insert(steps.begin(), steps.end());
    }
    for (auto& [attempt, steps] : attempts) {
        attempt.steps = steps.size();
        if (!steps.empty()) attempt.first_step = *steps.begin();
        for (const std::int64_t step : steps) attempt.repeated_steps += !all_steps.insert(step).second;
        verdict.attempts.push_back(attempt);
    }
    for (std::size_t i = 1; i < verdict.attempts.size(); ++i) {
        const AttemptCheck& attempt = verdict.attempts[i];
        const bool same_id = attempt.run_id == verdict.attempts[i - 1].run_id;
        std::string message = attempt.first_step
                                  ? fmt::format("resumed at step {} in ", format_integer(*attempt.first_step))
                                  : std::string("no steps in ");
        message += same_id ? fmt::format("attempt {}", attempt.attempt)
                           : fmt::format("run {} attempt {}", printable(attempt.run_id), attempt.attempt);
        if (attempt.repeated_steps > 0)
            message += fmt::format(", {} done again", format_plural(attempt.repeated_steps, "step"));
        add(verdict, Severity::note, "resumed", message);
    }
    for (const auto& [rank, state] : ranks_)
        for (const auto& [index, steps] : state.steps) all_steps.insert(steps.begin(), steps.end());
    find_gaps(verdict, all_steps);
}

void FileCheck::find_gaps(FileVerdict& verdict, const std::set<std::int64_t>& steps) const {
    verdict.steps = steps.size();
    if (steps.empty()) return;
    verdict.first_step = *steps.begin();
    verdict.last_step = *steps.rbegin();
    std::set<std::int64_t> strides;
    for (const auto& [rank, state] : ranks_)
        for (const RunInfo& run : tracker_.runs(rank))
            if (run.record_every_n_steps) strides.insert(*run.record_every_n_steps);
    verdict.stride = strides.size() == 1 ? std::optional(*strides.begin()) : infer_stride(steps);
    if (!verdict.stride) return;
    verdict.missing_steps = find_missing_steps(steps, *verdict.stride);
    if (verdict.missing_steps.count == 0) return;
    constexpr std::size_t max_ranges = 3;
    add(verdict, Severity::note, "step_gaps",
        fmt::format("{} missing ({})", format_plural(verdict.missing_steps.count, "step"),
                    format_ranges(verdict.missing_steps.listed, max_ranges)));
}

void FileCheck::find_loss(FileVerdict& verdict) const {
    Loss loss;
    for (const auto& [rank, state] : ranks_)
        for (const auto& [run, stats] : state.stats) loss.add(stats);
    if (!loss.any()) return;
    const bool spans_lost = loss.dropped() + loss.abandoned + loss.capture_skipped + loss.cuda_errors > 0;
    add(verdict, spans_lost ? Severity::incomplete : Severity::note, "loss", "lost: " + loss.describe());
}

void FileCheck::find_open_spans(FileVerdict& verdict) const {
    constexpr std::size_t max_shown = 3;
    const std::vector<OpenSpan>& open = open_spans_.all();
    for (std::size_t i = 0; i < std::min(open.size(), max_shown); ++i)
        add(verdict, Severity::note, "open_span",
            fmt::format("{} of step {} never ended", printable(open[i].name), format_integer(open[i].step)),
            open[i].line);
    if (open.size() > max_shown)
        add(verdict, Severity::note, "open_span",
            fmt::format("{} more never ended", format_count(open.size() - max_shown)));
}

FileVerdict FileCheck::finish(FileReport report) {
    FileVerdict verdict;
    verdict.report = std::move(report);
    for (const auto& [rank, state] : ranks_) verdict.ranks.push_back(rank);
    find_damage(verdict);
    find_other_ranks(verdict);
    find_order(verdict);
    find_loss(verdict);
    find_attempts(verdict);
    find_open_spans(verdict);
    find_odd_rows(verdict);
    find_runs(verdict);
    for (const Finding& finding : verdict.findings) verdict.severity = std::max(verdict.severity, finding.severity);
    return verdict;
}

}  // namespace cep::tool
