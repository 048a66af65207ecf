// SPDX-License-Identifier: Apache-2.0
//
// What a file check finds in the rows it has taken.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "base/units.hpp"
#include "check/file_check.hpp"
#include "read/loss.hpp"

namespace cep::tool {
namespace {

constexpr std::int64_t noteworthy_clock_error_ns = 1'000'000;
/// A step that takes so long, and so many times as long as the others, was timed by a clock that somebody had set, or
/// the job stood still.
constexpr double least_jump_ns = 3.6e12;
constexpr double least_jump_steps = 100;

std::string describe_ns(double time_ns) {
    return format_duration_ms(time_ns * 1e-6);
}

}  // namespace

void FileCheck::find_damage(const FileReport& report) {
    if (!report.unreadable.empty()) findings_.add(Severity::damaged, "unreadable", report.unreadable);
    if (report.cut_off) findings_.add(Severity::incomplete, "cut_off", "cut off at its end", report.lines);
    if (report.skipped_rows > 0)
        findings_.add(Severity::damaged, "rows_skipped", format_plural(report.skipped_rows, "row") + " skipped");
    const std::uint64_t elsewhere = report.skipped_rows + (report.cut_off ? 1 : 0);
    if (report.damage_count > elsewhere) findings_.add(Severity::damaged, "damage", "damage between rows");
    if (report.unreadable.empty() && report.rows + report.damage_count == 0)
        findings_.add(Severity::note, "empty", "no rows");
}

void FileCheck::find_odd_rows(const FileReport& report) {
    const std::uint64_t unknown = report.rows_by_type[static_cast<std::size_t>(RowType::unknown)];
    if (unknown > 0)
        findings_.add(Severity::note, "unknown_type",
                      format_plural(unknown, "row") + " of a type that this version does not know");
    if (odd_rows_ > 0)
        findings_.add(Severity::note, "odd_value",
                      fmt::format("{} with an unexpected type of value, first for \"{}\"",
                                  format_plural(odd_rows_, "row"), odd_key_),
                      odd_line_);
}

void FileCheck::find_other_ranks() {
    if (!name_rank_) return;
    for (const auto& [rank, state] : in_order_)
        if (rank != *name_rank_)
            findings_.add(Severity::damaged, "other_rank",
                          fmt::format("{} of rank {} in the file of rank {}", format_plural(state->rows, "row"), rank,
                                      *name_rank_));
}

void FileCheck::find_order() {
    for (const auto& [rank, state] : in_order_) {
        find_clock_jumps(rank, *state);
        if (!state->errors) continue;
        const OrderErrors& errors = *state->errors;
        if (errors.interleaved_line > 0)
            findings_.add(Severity::damaged, "interleaved",
                          fmt::format("two processes write rows of rank {} in turn", rank), errors.interleaved_line);
        if (errors.clock_back_line > 0)
            findings_.add(Severity::note, "clock_back",
                          fmt::format("the clock of rank {} goes back by {} or more within an attempt: start times "
                                      "before and after do not belong together",
                                      rank, describe_ns(static_cast<double>(errors.clock_back_ns))),
                          errors.clock_back_line);
        if (errors.starts_back > 0)
            findings_.add(
                Severity::note, "starts_back",
                fmt::format("{} of rank {} {} before an earlier span of the same phase and stream, the first by {}",
                            format_plural(errors.starts_back, "span"), rank,
                            errors.starts_back == 1 ? "starts" : "start",
                            describe_ns(static_cast<double>(errors.starts_back_ns))),
                errors.starts_back_line);
        if (errors.times_back == 0) continue;
        std::string message = fmt::format("steps go back from {} to {}", format_integer(errors.back_from),
                                          format_integer(errors.back_to));
        if (errors.times_back > 1)
            message += fmt::format(", and {} more", format_plural(errors.times_back - 1, "time"));
        message += state->current_run == RunTracker::no_run ? ": a restart without a run row?" : " within an attempt";
        findings_.add(Severity::note, "steps_back", std::move(message), errors.back_line);
    }
}

// The longest step does not count for what is usual.
void FileCheck::find_clock_jumps(std::int64_t rank, const RankState& state) {
    for (const RunState& run : state.runs) {
        if (!run.times || run.times->steps < run.times->longest_steps + 2) continue;
        const StepTimes& times = *run.times;
        const double usual_ns =
            (times.total_ns - times.longest_ns) / static_cast<double>(times.steps - times.longest_steps);
        const double longest_step_ns = times.longest_ns / static_cast<double>(times.longest_steps);
        if (times.longest_ns < least_jump_ns || longest_step_ns < least_jump_steps * usual_ns) continue;
        findings_.add(Severity::note, "clock_forward",
                      fmt::format("the clock of rank {} goes forward by {} before step {}: it was set, or the job "
                                  "stood still",
                                  rank, describe_ns(times.longest_ns), format_integer(times.longest_end)),
                      times.longest_line);
    }
}

void FileCheck::find_runs() {
    std::int64_t schema = 0;
    std::int64_t clock_error_ns = 0;
    for (const auto& [rank, state] : in_order_)
        for (const RunInfo& run : tracker_.runs(rank)) {
            schema = std::max(schema, run.schema);
            clock_error_ns = std::max(clock_error_ns, run.clock_error_ns.value_or(0));
        }
    if (schema > schema::version)
        findings_.add(Severity::note, "schema", fmt::format("schema {} is newer than this version reads", schema));
    if (clock_error_ns > noteworthy_clock_error_ns)
        findings_.add(Severity::note, "clock_error",
                      fmt::format("start times are only good to {}", describe_ns(static_cast<double>(clock_error_ns))));
}

void FileCheck::find_missing_run_rows() {
    std::vector<std::int64_t> ranks;
    for (const auto& [rank, state] : in_order_)
        if (state->has_full_spans && tracker_.runs(rank).empty()) ranks.push_back(rank);
    if (ranks.empty()) return;
    findings_.add(Severity::note, "no_run_row",
                  fmt::format("no run row of {} {}: host, attempt and world size are not known",
                              ranks.size() == 1 ? "rank" : "ranks", format_ranges(ranks)));
}

// Where each attempt number is there once, it says more than clocks: the host of a later attempt may be behind.
bool FileCheck::attempts_are_numbered() const {
    std::set<std::int64_t> attempts;
    std::set<std::pair<std::string_view, std::int64_t>> runs;
    for (const auto& [rank, state] : in_order_)
        for (const RunInfo& run : tracker_.runs(rank)) {
            attempts.insert(run.attempt);
            runs.emplace(run.run_id, run.attempt);
        }
    return attempts.size() == runs.size();
}

// Of ranks that have run rows; if none has, of all.
std::vector<FileCheck::RunOfRank> FileCheck::runs_in_order() const {
    const bool numbered = attempts_are_numbered();
    const bool any_runs = std::any_of(in_order_.begin(), in_order_.end(),
                                      [this](const RankOfFile& rank) { return !tracker_.runs(rank.first).empty(); });
    static const StepSet none;
    std::vector<RunOfRank> result;
    for (const auto& [rank, state] : in_order_) {
        const std::vector<RunInfo>& runs = tracker_.runs(rank);
        if (any_runs && runs.empty()) continue;
        const auto steps_of = [states = &state->runs](std::size_t i) -> const StepSet& {
            return i < states->size() ? (*states)[i].steps : none;
        };
        if (!steps_of(0).empty()) result.push_back({nullptr, {INT64_MIN, INT64_MIN}, &steps_of(0)});
        for (std::size_t i = 0; i < runs.size(); ++i)
            result.push_back({&runs[i], numbered ? RunOrder{0, runs[i].attempt} : order_of(runs[i]), &steps_of(i + 1)});
    }
    static const RunInfo no_run;
    std::stable_sort(result.begin(), result.end(), [](const RunOfRank& a, const RunOfRank& b) {
        const RunInfo& run_a = a.info != nullptr ? *a.info : no_run;
        const RunInfo& run_b = b.info != nullptr ? *b.info : no_run;
        return std::tie(a.order, run_a.run_id, run_a.attempt) < std::tie(b.order, run_b.run_id, run_b.attempt);
    });
    return result;
}

// Ranks of a merged file start an attempt at slightly different times: they are one attempt.
void FileCheck::find_attempts(FileVerdict& verdict) {
    std::vector<StepUnion> steps_of_attempts;
    std::map<std::pair<std::string_view, std::int64_t>, std::size_t> places;
    for (const RunOfRank& run : runs_in_order()) {
        const std::string_view run_id = run.info != nullptr ? std::string_view(run.info->run_id) : "";
        const std::int64_t attempt = run.info != nullptr ? run.info->attempt : 1;
        const auto [place, is_new] = places.try_emplace({run_id, attempt}, verdict.attempts.size());
        if (is_new) {
            verdict.attempts.push_back({std::string(run_id), attempt, 0, std::nullopt, 0});
            steps_of_attempts.emplace_back();
        }
        steps_of_attempts[place->second].add(*run.steps);
    }
    std::unordered_set<std::int64_t> earlier;
    for (std::size_t i = 0; i < verdict.attempts.size(); ++i) {
        AttemptCheck& attempt = verdict.attempts[i];
        const std::vector<std::int64_t> steps = steps_of_attempts[i].finish();
        attempt.steps = steps.size();
        if (!steps.empty()) attempt.first_step = steps.front();
        if (verdict.attempts.size() == 1) break;
        for (const std::int64_t step : steps) attempt.repeated_steps += !earlier.insert(step).second;
    }
    describe_attempts(verdict.attempts);
    StepUnion all_steps;
    for (const auto& [rank, state] : in_order_)
        for (const RunState& run : state->runs) all_steps.add(run.steps);
    find_gaps(verdict, all_steps.finish());
}

void FileCheck::describe_attempts(const std::vector<AttemptCheck>& attempts) {
    for (std::size_t i = 1; i < attempts.size(); ++i) {
        const AttemptCheck& attempt = attempts[i];
        std::string message = attempt.first_step
                                  ? fmt::format("resumed at step {} in ", format_integer(*attempt.first_step))
                                  : std::string("no steps in ");
        message += attempt.run_id == attempts[i - 1].run_id
                       ? fmt::format("attempt {}", attempt.attempt)
                       : fmt::format("run {} attempt {}", attempt.run_id, attempt.attempt);
        if (attempt.repeated_steps > 0)
            message += fmt::format(", {} done again", format_plural(attempt.repeated_steps, "step"));
        findings_.add(Severity::note, "resumed", std::move(message));
    }
}

void FileCheck::find_gaps(FileVerdict& verdict, const std::vector<std::int64_t>& steps) {
    verdict.steps = steps.size();
    if (steps.empty()) return;
    verdict.first_step = steps.front();
    verdict.last_step = steps.back();
    std::set<std::int64_t> strides;
    for (const auto& [rank, state] : in_order_)
        for (const RunInfo& run : tracker_.runs(rank))
            if (run.record_every_n_steps) strides.insert(*run.record_every_n_steps);
    verdict.stride = strides.size() == 1 ? std::optional(*strides.begin()) : infer_stride(steps);
    if (!verdict.stride) return;
    verdict.missing_steps = find_missing_steps(steps, *verdict.stride);
    if (verdict.missing_steps.count == 0) return;
    constexpr std::size_t max_ranges = 3;
    findings_.add(Severity::note, "step_gaps",
                  fmt::format("{} missing ({})", format_plural(verdict.missing_steps.count, "step"),
                              format_ranges(verdict.missing_steps.listed, max_ranges)));
}

void FileCheck::find_loss() {
    Loss loss;
    for (const auto& [rank, state] : in_order_)
        for (const RunState& run : state->runs)
            if (run.stats) loss.add(*run.stats);
    if (!loss.any()) return;
    const bool spans_lost = loss.dropped() + loss.abandoned + loss.capture_skipped + loss.cuda_errors > 0;
    findings_.add(spans_lost ? Severity::incomplete : Severity::note, "loss", "lost: " + loss.describe());
}

void FileCheck::find_open_spans() {
    constexpr std::size_t max_shown = 3;
    const std::vector<OpenSpan>& open = open_spans_.all();
    for (std::size_t i = 0; i < std::min(open.size(), max_shown); ++i)
        findings_.add(Severity::note, "open_span",
                      fmt::format("{} of step {} never ended", open[i].name, format_integer(open[i].step)),
                      open[i].line);
    if (open.size() > max_shown)
        findings_.add(Severity::note, "open_span",
                      fmt::format("{} more never ended", format_count(open.size() - max_shown)));
}

FileVerdict FileCheck::finish(FileReport report) {
    FileVerdict verdict;
    verdict.report = std::move(report);
    for (const auto& [rank, state] : in_order_) verdict.ranks.push_back(rank);
    find_damage(verdict.report);
    find_other_ranks();
    find_order();
    if (has_too_many_phases_)
        findings_.add(Severity::note, "too_many_phases",
                      fmt::format("more than {} phases of ranks: the order of the other phases is not checked",
                                  format_count(max_phases)));
    find_loss();
    find_attempts(verdict);
    find_open_spans();
    find_odd_rows(verdict.report);
    find_runs();
    find_missing_run_rows();
    verdict.findings = findings_.finish();
    verdict.severity = worst_of(verdict.findings);
    return verdict;
}

}  // namespace cep::tool
