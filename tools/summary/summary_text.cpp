// SPDX-License-Identifier: Apache-2.0
#include "summary/summary_text.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "show/plain_table.hpp"
#include "summary/summary_groups.hpp"
#include "verdict/verdict_text.hpp"

namespace cep::tool {
namespace {

using By = Grouping::By;

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

std::string describe_bytes(std::string_view what, const AcrossRanks& figure) {
    constexpr double apart = 1.05;
    std::string text = fmt::format("{} {}", format_bytes(figure.median), what);
    if (figure.max > apart * figure.median)
        text += fmt::format(" (rank {}: {})", figure.max_rank, format_bytes(figure.max));
    return text;
}

// Of the median rank; where another has much more, that too.
void add_memory(std::string& text, const SummaryResult& result) {
    if (!result.memory) return;
    const MemorySummary& memory = *result.memory;
    std::string value = "at most ";
    if (memory.peak_allocated_bytes) value += describe_bytes("allocated", *memory.peak_allocated_bytes);
    if (memory.peak_allocated_bytes && memory.peak_reserved_bytes) value += ", ";
    if (memory.peak_reserved_bytes) value += describe_bytes("reserved", *memory.peak_reserved_bytes);
    value += " on the median rank";
    if (const auto& share = memory.fragmentation) {
        value += fmt::format("; {:.1f} % of what is reserved is unused", 100 * share->median);
        if (share->max > share->median + 0.05)
            value += fmt::format(" (rank {}: {:.1f} %)", share->max_rank, 100 * share->max);
    }
    if (memory.alloc_retries > 0)
        value += fmt::format("; {} freed the cache and tried again",
                             format_plural(static_cast<std::uint64_t>(memory.alloc_retries), "allocation"));
    add_line(text, "memory", value);
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
    add_memory(text, result);
    if (result.approximate)
        add_line(text, "note",
                 fmt::format("more durations than are kept: percentiles and skew are within {:.1f} %",
                             100 * LogHistogram::relative_error));
    if (result.repeats_unresolved)
        add_line(text, "note", "some steps that were done again count with every attempt; choose one with --attempt");
    return text;
}

std::string verdict_lines(const Verdict& verdict, bool colors) {
    const VerdictText told = verdict_text(verdict);
    std::string text = colors ? "\033[1m" + told.headline + "\033[0m\n" : told.headline + "\n";
    if (!told.evidence.empty() || !told.next.empty()) text += '\n';
    for (const std::string& line : told.evidence)
        add_line(text, &line == &told.evidence.front() ? "because" : "", line);
    for (const std::string& line : told.next) add_line(text, &line == &told.next.front() ? "next" : "", line);
    return text;
}

std::string verdict_markdown(const Verdict& verdict) {
    const VerdictText told = verdict_text(verdict);
    std::string text = "**" + told.headline + "**\n\n";
    for (const std::string& line : told.evidence) text += "- " + line + "\n";
    for (const std::string& line : told.next) text += "- next: " + line + "\n";
    return text + "\n";
}

std::string describe_share(const std::optional<double>& share) {
    return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

std::string or_dash(std::string_view text) {
    return text.empty() ? "-" : std::string(text);
}

std::string describe_ratio(const std::optional<double>& ratio) {
    return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

std::string describe_window(const GroupSummary& group) {
    return group.first == group.last ? format_integer(group.first)
                                     : fmt::format("{}–{}", format_integer(group.first), format_integer(group.last));
}

/// Columns that say which group a line is of.
struct GroupColumns {
    By by;

    [[nodiscard]] std::vector<std::string> headings() const {
        if (by == By::rank) return {"rank", "host"};
        if (by == By::host) return {"host"};
        return {"steps"};
    }
    [[nodiscard]] std::vector<std::string> cells(const GroupSummary& group) const {
        if (by == By::rank) return {fmt::format("{}", group.first), or_dash(printable(group.host))};
        if (by == By::host) return {or_dash(printable(group.host))};
        return {describe_window(group)};
    }
};

// A difference that vanishes in its digits has no sign.
std::string describe_excess(const DurationFormat& duration, double excess_ms) {
    std::string text = duration(excess_ms);
    const bool vanishes = text.find_first_of("123456789") == std::string::npos;
    return vanishes && text.front() == '-' ? text.substr(1) : text;
}

PlainTable phase_table(const SummaryResult& result) {
    PlainTable table;
    for (const char* heading : {"phase", "kind", "clock"}) table.add_column(heading, Align::left);
    for (const char* heading : {"count", "mean", "p50", "p90", "p99", "max", "share", "slowest rank", "skew"})
        table.add_column(heading, Align::right);
    for (const PhaseSummary& phase : result.phases) {
        const DurationFormat duration(phase.p50_ms > 0 ? phase.p50_ms : phase.mean_ms, phase.p99_ms);
        const bool comparable = phase.ranks > 1;
        table.add_row({printable(phase.name), std::string(schema::kind_name(phase.kind)),
                       or_dash(clock_names[static_cast<std::size_t>(phase.clock)]), format_count(phase.count),
                       duration(phase.mean_ms), duration(phase.p50_ms), duration(phase.p90_ms), duration(phase.p99_ms),
                       duration(phase.max_ms), describe_share(phase.share),
                       comparable ? fmt::format("{}", phase.slowest_rank) : "-",
                       comparable ? describe_ratio(phase.skew) : "-"});
    }
    return table;
}

PlainTable group_table(const SummaryResult& result, const std::vector<const GroupSummary*>& groups) {
    const GroupColumns columns{result.grouping.by};
    const bool several_ranks = result.grouping.by != By::rank;
    PlainTable table;
    for (const std::string& heading : columns.headings()) table.add_column(heading, Align::left);
    for (const char* heading : {"phase", "kind"}) table.add_column(heading, Align::left);
    for (const char* heading : {"count", "mean", "p50", "p90", "p99", "max", "share", "excess", "× median"})
        table.add_column(heading, Align::right);
    if (several_ranks) table.add_column("slowest rank", Align::right);
    for (const GroupSummary* group : groups) {
        const PhaseSummary& phase = group->phase;
        const DurationFormat duration(phase.p50_ms > 0 ? phase.p50_ms : phase.mean_ms, phase.p99_ms);
        std::vector<std::string> cells = columns.cells(*group);
        for (const std::string& cell :
             {printable(phase.name), std::string(schema::kind_name(phase.kind)), format_count(phase.count),
              duration(phase.mean_ms), duration(phase.p50_ms), duration(phase.p90_ms), duration(phase.p99_ms),
              duration(phase.max_ms), describe_share(phase.share), describe_excess(duration, group->excess_ms),
              describe_ratio(group->median_ratio)})
            cells.push_back(cell);
        if (several_ranks) cells.push_back(phase.ranks > 1 ? fmt::format("{}", phase.slowest_rank) : "-");
        table.add_row(std::move(cells));
    }
    return table;
}

PlainTable human_table(const SummaryResult& result, std::size_t limit) {
    return result.grouping.by == By::phase ? phase_table(result) : group_table(result, telling_groups(result, limit));
}

std::string describe_hidden(const SummaryResult& result, std::size_t limit) {
    if (limit == 0 || result.groups.size() <= limit) return "";
    return fmt::format("… {} with a smaller excess not shown; --limit 0 shows all\n",
                       format_plural(result.groups.size() - limit, "line"));
}

std::string optional_number(const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "";
}

std::vector<std::string> csv_cells(const PhaseSummary& phase) {
    return {phase.name,
            std::string(schema::kind_name(phase.kind)),
            std::string(clock_names[static_cast<std::size_t>(phase.clock)]),
            fmt::format("{}", phase.count),
            fmt::format("{}", phase.ranks),
            fmt::format("{}", phase.mean_ms),
            fmt::format("{}", phase.p50_ms),
            fmt::format("{}", phase.p90_ms),
            fmt::format("{}", phase.p99_ms),
            fmt::format("{}", phase.min_ms),
            fmt::format("{}", phase.max_ms),
            fmt::format("{}", phase.total_ms),
            optional_number(phase.share),
            fmt::format("{}", phase.slowest_rank),
            optional_number(phase.skew)};
}

std::vector<std::string> csv_group_headings(By by) {
    if (by == By::rank) return {"rank", "host"};
    if (by == By::host) return {"host"};
    if (by == By::step) return {"first_step", "last_step"};
    return {};
}

std::vector<std::string> csv_group_cells(By by, const GroupSummary& group) {
    if (by == By::rank) return {fmt::format("{}", group.first), group.host};
    if (by == By::host) return {group.host};
    return {fmt::format("{}", group.first), fmt::format("{}", group.last)};
}

}  // namespace

std::string summary_text(const SummaryResult& result, std::size_t limit, bool colors) {
    if (result.phases.empty()) return header_text(result);
    const std::string text =
        (result.verdict ? verdict_lines(*result.verdict, colors) + "\n" : "") + header_text(result);
    return text + "\n" + human_table(result, limit).text(colors ? "\033[1m" : "", colors ? "\033[0m" : "") +
           describe_hidden(result, limit);
}

std::string summary_markdown(const SummaryResult& result, std::size_t limit) {
    const std::string hidden = describe_hidden(result, limit);
    return (result.verdict ? verdict_markdown(*result.verdict) : "") + human_table(result, limit).markdown() +
           (hidden.empty() ? "" : "\n" + hidden);
}

std::string summary_csv(const SummaryResult& result) {
    const By by = result.grouping.by;
    PlainTable table;
    for (const std::string& heading : csv_group_headings(by)) table.add_column(heading, Align::left);
    for (const char* heading : {"name", "kind", "clock", "count", "ranks", "mean_ms", "p50_ms", "p90_ms", "p99_ms",
                                "min_ms", "max_ms", "total_ms", "share", "slowest_rank", "skew"})
        table.add_column(heading, Align::left);
    if (by == By::phase) {
        for (const PhaseSummary& phase : result.phases) table.add_row(csv_cells(phase));
        return table.csv();
    }
    for (const char* heading : {"excess_ms", "median_ratio"}) table.add_column(heading, Align::left);
    for (const GroupSummary& group : result.groups) {
        std::vector<std::string> cells = csv_group_cells(by, group);
        for (std::string& cell : csv_cells(group.phase)) cells.push_back(std::move(cell));
        cells.push_back(fmt::format("{}", group.excess_ms));
        cells.push_back(optional_number(group.median_ratio));
        table.add_row(std::move(cells));
    }
    return table.csv();
}

}  // namespace cep::tool
