// SPDX-License-Identifier: Apache-2.0
#include "summary_text.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "table.hpp"
#include "units.hpp"

namespace cep::analysis {
namespace {

constexpr std::size_t max_open_spans_shown = 5;
constexpr std::size_t max_runs_shown = 4;
constexpr std::size_t heading_width = 9;

void add_line(std::string& text, std::string_view heading, const std::string& value) {
    text += fmt::format("{:<{}} {}\n", heading, heading_width, value);
}

std::string describe_ranks(const SummaryResult& result) {
    const Coverage& coverage = result.coverage;
    const bool all = coverage.missing_ranks.empty();
    std::string text = all ? format_plural(coverage.ranks_seen, "rank")
                           : fmt::format("{} of {} ranks", format_count(coverage.ranks_seen),
                                         format_count(coverage.ranks_expected.value_or(0)));
    if (result.hosts > 0) text += " on " + format_plural(result.hosts, "host");
    if (!all)
        text += fmt::format(" (missing {} {})", coverage.missing_ranks.size() == 1 ? "rank" : "ranks",
                            format_ranges(coverage.missing_ranks));
    return text;
}

std::string describe_steps(const SummaryResult& result) {
    if (!result.first_step) return "none";
    std::string text =
        *result.first_step == *result.last_step
            ? format_integer(*result.first_step)
            : fmt::format("{} to {}", format_integer(*result.first_step), format_integer(*result.last_step));
    text += fmt::format(", {} recorded", format_count(result.steps));
    if (result.stride && *result.stride > 1) text += fmt::format(" (every {})", format_integer(*result.stride));
    return text;
}

std::string describe_rows(const SummaryResult& result) {
    const InputCounts& inputs = result.inputs;
    std::string text =
        fmt::format("{} in {} ({})", format_plural(inputs.rows, "row"), format_plural(inputs.files, "file"),
                    format_bytes(static_cast<double>(inputs.bytes)));
    if (result.superseded_rows > 0)
        text +=
            fmt::format("; {} left out: a later attempt did these steps again", format_count(result.superseded_rows));
    if (result.duplicate_rows > 0)
        text += fmt::format("; {} left out: there twice", format_count(result.duplicate_rows));
    return text;
}

void add_runs(std::string& text, const SummaryResult& result) {
    const std::size_t hidden = result.runs.size() - std::min(result.runs.size(), max_runs_shown);
    if (hidden > 0) add_line(text, "run", fmt::format("… {} before these", format_plural(hidden, "earlier run")));
    for (std::size_t i = hidden; i < result.runs.size(); ++i) {
        const RunSummary& run = result.runs[i];
        std::string value =
            fmt::format("{}, attempt {}, {}", printable(run.run_id), run.attempt, format_plural(run.ranks, "rank"));
        if (run.first_step)
            value += fmt::format(", steps {} to {}", format_integer(*run.first_step), format_integer(*run.last_step));
        add_line(text, "run", value);
    }
}

void add_open_spans(std::string& text, const SummaryResult& result) {
    for (std::size_t i = 0; i < std::min(result.open_spans.size(), max_open_spans_shown); ++i) {
        const OpenSpan& open = result.open_spans[i];
        add_line(text, "open",
                 fmt::format("{} on rank {} in step {} never ended; open for {} when last seen", printable(open.name),
                             open.rank, format_integer(open.step), format_duration_ms(open.elapsed_ms)));
    }
    if (result.open_spans.size() > max_open_spans_shown)
        add_line(text, "", fmt::format("… and {} more", format_count(result.open_spans.size() - max_open_spans_shown)));
}

void add_marks(std::string& text, const SummaryResult& result) {
    constexpr std::size_t max_ranges = 6;
    for (const auto& [name, mark] : result.marks) {
        const std::vector<std::int64_t> steps(mark.steps.begin(), mark.steps.end());
        add_line(text, "mark",
                 fmt::format("{} in {} {} on {}", printable(name), steps.size() == 1 ? "step" : "steps",
                             format_ranges(steps, max_ranges), format_plural(mark.ranks.size(), "rank")));
    }
}

std::string header_text(const SummaryResult& result) {
    std::string text;
    add_line(text, "ranks", describe_ranks(result));
    add_line(text, "steps", describe_steps(result));
    add_line(text, "rows", describe_rows(result));
    add_runs(text, result);
    if (result.loss.any()) add_line(text, "lost", result.loss.describe());
    add_open_spans(text, result);
    add_marks(text, result);
    if (result.approximate)
        add_line(text, "note",
                 fmt::format("more durations than are kept: percentiles and skew are within {:.1f} %",
                             100 * LogHistogram::relative_error));
    if (result.repeats_unresolved)
        add_line(text, "note", "some steps that were done again count with every attempt; choose one with --attempt");
    return text;
}

std::string or_dash(std::string_view text) {
    return text.empty() ? "-" : std::string(text);
}

Table human_table(const SummaryResult& result) {
    Table table;
    for (const char* heading : {"phase", "kind", "clock"}) table.add_column(heading, Align::left);
    for (const char* heading : {"count", "mean", "p50", "p90", "p99", "max", "share", "slowest rank", "skew"})
        table.add_column(heading, Align::right);
    for (const PhaseSummary& phase : result.phases) {
        const DurationFormat duration(phase.p50_ms > 0 ? phase.p50_ms : phase.mean_ms, phase.p99_ms);
        const bool comparable = phase.ranks > 1;
        table.add_row({printable(phase.name), std::string(schema::kind_name(phase.kind)),
                       or_dash(clock_names[static_cast<std::size_t>(phase.clock)]), format_count(phase.count),
                       duration(phase.mean_ms), duration(phase.p50_ms), duration(phase.p90_ms), duration(phase.p99_ms),
                       duration(phase.max_ms), phase.share ? fmt::format("{:.1f} %", 100 * *phase.share) : "-",
                       comparable ? fmt::format("{}", phase.slowest_rank) : "-",
                       comparable && phase.skew ? fmt::format("{:.2f}", *phase.skew) : "-"});
    }
    return table;
}

}  // namespace

std::string summary_text(const SummaryResult& result, bool colors) {
    std::string text = header_text(result);
    if (result.phases.empty()) return text;
    return text + "\n" + human_table(result).text(colors ? "\033[1m" : "", colors ? "\033[0m" : "");
}

std::string summary_markdown(const SummaryResult& result) {
    return human_table(result).markdown();
}

std::string summary_csv(const SummaryResult& result) {
    Table table;
    for (const char* heading : {"name", "kind", "clock", "count", "ranks", "mean_ms", "p50_ms", "p90_ms", "p99_ms",
                                "min_ms", "max_ms", "total_ms", "share", "slowest_rank", "skew"})
        table.add_column(heading, Align::left);
    auto optional = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
    for (const PhaseSummary& phase : result.phases)
        table.add_row({phase.name, std::string(schema::kind_name(phase.kind)),
                       std::string(clock_names[static_cast<std::size_t>(phase.clock)]), fmt::format("{}", phase.count),
                       fmt::format("{}", phase.ranks), fmt::format("{}", phase.mean_ms),
                       fmt::format("{}", phase.p50_ms), fmt::format("{}", phase.p90_ms),
                       fmt::format("{}", phase.p99_ms), fmt::format("{}", phase.min_ms),
                       fmt::format("{}", phase.max_ms), fmt::format("{}", phase.total_ms), optional(phase.share),
                       fmt::format("{}", phase.slowest_rank), optional(phase.skew)});
    return table.csv();
}

}  // namespace cep::analysis
