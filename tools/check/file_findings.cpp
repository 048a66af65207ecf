// SPDX-License-Identifier: Apache-2.0
//
// What a file check finds in the rows it has taken.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "base/units.hpp"
#include "check/file_check.hpp"
#include "read/byte_source.hpp"
#include "read/loss.hpp"

namespace cep::tool {
namespace {

constexpr std::int64_t noteworthy_clock_error_ns = 1'000'000;

std::string describe_ns(double time_ns) {
    return format_duration_ms(time_ns * 1e-6);
}

std::string describe_attempt(const AttemptCheck& attempt, bool in_same_run) {
    std::string message = attempt.first_step
                              ? fmt::format("resumed at step {} in ", format_integer(*attempt.first_step))
                              : std::string("no steps in ");
    message += in_same_run ? fmt::format("attempt {}", attempt.attempt)
                           : fmt::format("run {} attempt {}", attempt.run_id, attempt.attempt);
    if (attempt.repeated_steps > 0)
        message += fmt::format(", {} done again", format_plural(attempt.repeated_steps, "step"));
    return message;
}

}  // namespace

AttemptKey::AttemptKey(std::string_view id, std::int64_t number) : run_id(id), attempt(number) {
    for (std::size_t i = 0; i < sizeof id_begin; ++i)
        id_begin = id_begin << 8 | (i < id.size() ? static_cast<unsigned char>(id[i]) : 0U);
}

void FileCheck::find_damage(const FileReport& report) {
    if (!report.unreadable.empty())
        findings_.add(Severity::damaged, report.is_rank_file ? "unreadable" : "no_rank_file", report.unreadable);
    const bool is_too_large = !report.damages.empty() && report.damages.back().why.starts_with(too_compressed);
    if (is_too_large)
        findings_.add(Severity::incomplete, "too_compressed", "not read to its end", report.lines);
    else if (report.cut_off)
        findings_.add(Severity::incomplete, "cut_off", "cut off at its end", report.lines);
    if (report.skipped_rows > 0)
        findings_.add(Severity::damaged, "rows_skipped", format_plural(report.skipped_rows, "row") + " skipped");
    const std::uint64_t elsewhere = report.skipped_rows + (report.cut_off ? 1 : 0);
    if (report.damage_count > elsewhere) findings_.add(Severity::damaged, "damage", "damage between rows");
    if (report.unreadable.empty() && report.rows + report.damage_count == 0)
        findings_.add(Severity::incomplete, "empty", "no rows");
}

void FileCheck::find_odd_rows(const FileReport& report) {
    const std::uint64_t unknown = report.rows_by_type[static_cast<std::size_t>(RowType::unknown)];
    if (unknown > 0)
        findings_.note("unknown_type", format_plural(unknown, "row") + " of a type that this version does not know");
    if (odd_rows_ > 0)
        findings_.note("odd_value",
                       fmt::format("{} with an unexpected type of value, first for \"{}\"",
                                   format_plural(odd_rows_, "row"), odd_key_),
                       odd_line_);
}

void FileCheck::find_repeated_rows() {
    if (const std::uint64_t count = repeated_rows_.count(); count > 0)
        findings_.add(Severity::damaged, "repeated_rows",
                      fmt::format("about {} more than once in this file", format_plural(count, "row")),
                      repeated_rows_.line());
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
        if (!state->errors) continue;
        const auto& [steps_back, clock_back, starts_back, interleaved] = *state->errors;
        const auto describe_way = [](const OrderError& error) {
            return describe_ns(static_cast<double>(error.from) - static_cast<double>(error.to));
        };
        if (interleaved.count > 0)
            findings_.add(Severity::damaged, "interleaved",
                          fmt::format("two processes write rows of rank {} in turn", rank), interleaved.line);
        if (clock_back.count > 0)
            findings_.note("clock_back",
                           fmt::format("the clock of rank {} goes back by {} or more within an attempt: start times "
                                       "before and after do not belong together",
                                       rank, describe_way(clock_back)),
                           clock_back.line);
        if (starts_back.count > 0)
            findings_.note("starts_back",
                           fmt::format("{} of rank {} {} before an earlier span of the same phase and stream, the "
                                       "first by {}",
                                       format_plural(starts_back.count, "span"), rank,
                                       starts_back.count == 1 ? "starts" : "start", describe_way(starts_back)),
                           starts_back.line);
        if (steps_back.count == 0) continue;
        std::string message =
            fmt::format("steps go back from {} to {}", format_integer(steps_back.from), format_integer(steps_back.to));
        if (steps_back.count > 1) message += fmt::format(", and {} more", format_plural(steps_back.count - 1, "time"));
        message += state->current_run == RunOfRow::none ? ": a restart without a run row?" : " within an attempt";
        findings_.note("steps_back", std::move(message), steps_back.line);
    }
}

void FileCheck::find_runs() {
    if (schema_ > schema::version)
        findings_.note("schema", fmt::format("schema {} is newer than this version reads", schema_));
    if (clock_error_ns_ > noteworthy_clock_error_ns)
        findings_.note("clock_error", fmt::format("start times are only good to {}",
                                                  describe_ns(static_cast<double>(clock_error_ns_))));
    if (runs_->has_too_many_runs())
        findings_.note("too_many_runs", fmt::format("more than {} runs: rows of the others count for the runs before",
                                                    format_count(RunTracker::max_runs)));
}

void FileCheck::find_missing_run_rows() {
    std::vector<std::int64_t> ranks;
    for (const auto& [rank, state] : in_order_)
        if (state->has_full_spans && !state->has_run_rows()) ranks.push_back(rank);
    if (ranks.empty()) return;
    findings_.note("no_run_row", fmt::format("no run row of {}: host, attempt and world size are not known",
                                             format_numbers("rank", ranks)));
}

// Ranks of a merged file start an attempt at slightly different times: they are one attempt.
void FileCheck::join_equal(std::vector<Attempt>& attempts) {
    std::sort(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) { return a.key < b.key; });
    std::vector<Attempt> joined;
    joined.reserve(attempts.size());
    for (Attempt& attempt : attempts) {
        if (joined.empty() || joined.back().key != attempt.key) {
            joined.push_back(std::move(attempt));
        } else {
            joined.back().order = std::min(joined.back().order, attempt.order);
            attempt.steps.sort();
            joined.back().steps.add(attempt.steps.steps());
        }
    }
    attempts = std::move(joined);
}

std::vector<FileCheck::Attempt> FileCheck::join_ranks() const {
    std::vector<Attempt> attempts;
    std::size_t starts = 0;
    for (const auto& [rank, state] : in_order_) starts += state->runs.size();
    attempts.reserve(starts);
    for (const RankOfFile& of : in_order_)
        for_each_start(of, [&](const RunStart& start, const RunState& recorded) {
            attempts.push_back({{start.run_id, start.attempt}, order_of(start), recorded.steps});
        });
    join_equal(attempts);
    // Where each attempt number is there once, it says more than clocks: the host of a later attempt may be behind.
    std::set<std::int64_t> numbers;
    for (const Attempt& attempt : attempts) numbers.insert(attempt.key.attempt);
    if (numbers.size() == attempts.size())
        for (Attempt& attempt : attempts) attempt.order = {0, attempt.key.attempt};
    // Rows before any run row count where their rank has a run row, or none has.
    const std::size_t with_run_row = attempts.size();
    for (const auto& [rank, state] : in_order_)
        if (!state->runs.empty() && !state->runs[0].steps.steps().empty() &&
            (with_run_row == 0 || state->has_run_rows()))
            attempts.push_back({{"", 1}, {INT64_MIN, INT64_MIN}, state->runs[0].steps});
    if (attempts.size() > with_run_row) join_equal(attempts);
    return attempts;
}

void FileCheck::find_attempts(FileVerdict& verdict) {
    std::vector<Attempt> attempts = join_ranks();
    const auto is_earlier = [](const Attempt& a, const Attempt& b) { return a.order < b.order; };
    // Half a million attempts that are known by their names only are in order.
    if (!std::is_sorted(attempts.begin(), attempts.end(), is_earlier))
        std::stable_sort(attempts.begin(), attempts.end(), is_earlier);
    std::unordered_set<std::int64_t> earlier;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
        auto& [key, order, recorded] = attempts[i];
        recorded.sort();
        const std::vector<std::int64_t>& steps = recorded.steps();
        AttemptCheck check{std::string(key.run_id), key.attempt, steps.size(), std::nullopt, 0};
        if (!steps.empty()) check.first_step = steps.front();
        for (const std::int64_t step : steps)
            check.repeated_steps += attempts.size() > 1 && !earlier.insert(step).second;
        if (i > 0) {
            const bool in_same_run = attempts[i - 1].key.run_id == key.run_id;
            findings_.note("resumed", [&] { return describe_attempt(check, in_same_run); });
        }
        if (i < max_attempts) verdict.attempts.push_back(std::move(check));
    }
    if (attempts.size() > max_attempts)
        findings_.note("too_many_attempts", fmt::format("only the first {} of {} attempts are listed",
                                                        format_count(max_attempts), format_count(attempts.size())));
    StepSet all_steps;
    for (const auto& [rank, state] : in_order_)
        for (const RunState& run : state->runs) all_steps.add(run.steps.steps());
    all_steps.sort();
    find_gaps(verdict, all_steps.steps());
}

void FileCheck::find_gaps(FileVerdict& verdict, const std::vector<std::int64_t>& steps) {
    verdict.steps = steps.size();
    if (steps.empty()) return;
    verdict.first_step = steps.front();
    verdict.last_step = steps.back();
    verdict.stride = strides_.size() == 1 ? std::optional(*strides_.begin()) : infer_stride(steps);
    if (!verdict.stride) return;
    // Where the stride changes, a multiple of the longest one is a gap with any.
    const std::int64_t longest = stride_changes_ ? stride_changes_->longest : *verdict.stride;
    if (stride_changes_)
        findings_.note("stride_changed", fmt::format("the stride was lengthened from {} to {} to keep below {:g} %",
                                                     format_integer(stride_changes_->from), format_integer(longest),
                                                     stride_changes_->max_percent));
    verdict.missing_steps = find_missing_steps(steps, longest);
    if (verdict.missing_steps.count == 0) return;
    constexpr std::size_t max_ranges = 3;
    findings_.note("step_gaps", fmt::format("{} missing ({})", format_plural(verdict.missing_steps.count, "step"),
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
        findings_.note("open_span",
                       fmt::format("{} of step {} never ended", open[i].name, format_integer(open[i].step)),
                       open[i].line);
    if (open.size() > max_shown)
        findings_.note("open_span", fmt::format("{} more never ended", format_count(open.size() - max_shown)));
}

FileVerdict FileCheck::finish(FileReport report) {
    FileVerdict verdict;
    verdict.report = std::move(report);
    for (const auto& [rank, state] : in_order_) verdict.ranks.push_back(rank);
    find_damage(verdict.report);
    find_other_ranks();
    find_order();
    if (has_too_many_phases_)
        findings_.note("too_many_phases",
                       fmt::format("more than {} phases of ranks: the order of the other phases is not checked",
                                   format_count(max_phases)));
    find_loss();
    find_attempts(verdict);
    find_open_spans();
    find_odd_rows(verdict.report);
    find_repeated_rows();
    find_runs();
    find_missing_run_rows();
    verdict.findings = findings_.finish();
    verdict.severity = worst_of(verdict.findings);
    return verdict;
}

}  // namespace cep::tool
