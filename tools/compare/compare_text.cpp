// SPDX-License-Identifier: Apache-2.0
#include "compare/compare_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "compare/headline.hpp"
#include "show/plain_table.hpp"

namespace cep::compare {
namespace {

using tool::Align;
using tool::DurationFormat;
using tool::PlainTable;

// The median, and the farther end of its interval, as benchstat writes it.
std::string describe_median(const PhaseSide& side, const DurationFormat& duration) {
    if (side.steps == 0) return "-";
    if (!side.interval_ms || side.median_ms <= 0) return duration(side.median_ms);
    const double half =
        std::max(side.interval_ms->high - side.median_ms, side.median_ms - side.interval_ms->low) / side.median_ms;
    return fmt::format("{} ± {:.1f} %", duration(side.median_ms), 100 * half);
}

std::string describe_change(const Change& change) {
    if (change.finding == Finding::only_a) return "only in A";
    if (change.finding == Finding::only_b) return "only in B";
    if (change.finding == Finding::undecided) return "?";
    if (!change.change) return "-";
    const std::string interval =
        fmt::format("[{:+.1f}, {:+.1f}]", 100 * change.change_interval->low, 100 * change.change_interval->high);
    if (change.finding == Finding::same && !change.below_threshold) return "~ " + interval;
    return fmt::format("{}{:+.1f} % {}", change.below_threshold ? "~ " : "", 100 * *change.change, interval);
}

std::string describe_p(const Change& change) {
    if (!change.test) return "-";
    return change.corrected_p < 0.001 ? "<0.001" : fmt::format("{:.3f}", change.corrected_p);
}

std::string describe_share(const Change& change) {
    const auto text = [](const PhaseSide& side) {
        return side.share ? fmt::format("{:.1f} %", 100 * *side.share) : std::string("-");
    };
    return change.in_both() ? fmt::format("{} → {}", text(change.a), text(change.b))
                            : text(change.finding == Finding::only_a ? change.a : change.b);
}

std::string describe_blocks(const Change& change) {
    if (change.block_steps == 0) return "-";
    return fmt::format("{} + {} of {}", change.a.blocks, change.b.blocks, change.block_steps);
}

void add_change(PlainTable& table, const Change& change, std::string name) {
    const double longest_ms = std::max(change.a.median_ms, change.b.median_ms);
    const double shortest_ms = change.in_both() ? std::min(change.a.median_ms, change.b.median_ms) : longest_ms;
    const DurationFormat duration(shortest_ms > 0 ? shortest_ms : longest_ms, longest_ms);
    table.add_row({std::move(name), std::string(schema::kind_name(change.kind)), describe_median(change.a, duration),
                   describe_median(change.b, duration), describe_change(change), describe_p(change),
                   describe_share(change), describe_blocks(change)});
}

PlainTable change_table(const Comparison& comparison) {
    PlainTable table;
    for (const char* heading : {"phase", "kind"}) table.add_column(heading, Align::left);
    for (const char* heading : {"A", "B", "change", "p", "share", "blocks"}) table.add_column(heading, Align::right);
    if (comparison.step) {
        const bool is_sum = comparison.a.steps.step_is_a_sum || comparison.b.steps.step_is_a_sum;
        add_change(table, *comparison.step, is_sum ? "step (sum)" : tool::printable(comparison.step->name));
    }
    for (const Change& change : comparison.phases) add_change(table, change, tool::printable(change.name));
    return table;
}

std::string describe_job(const JobFacts& job) {
    const std::vector<std::int64_t>& steps = job.steps.recorded;
    std::string text =
        fmt::format("{}: {}, {}", tool::printable(job.name), tool::format_plural(job.coverage.ranks_seen, "rank"),
                    tool::format_plural(steps.size(), "recorded step"));
    if (!steps.empty())
        text += fmt::format(" ({} to {})", tool::format_integer(steps.front()), tool::format_integer(steps.back()));
    return text;
}

std::vector<std::string> table_notes(const Comparison& comparison) {
    std::vector<std::string> notes = describe_differences(comparison);
    std::set<std::string> reasons;
    bool any_same = false;
    for (const Change& change : comparison.phases) {
        if (change.finding == Finding::undecided) reasons.insert(change.reason);
        any_same |= change.finding == Finding::same;
    }
    any_same |= comparison.step && comparison.step->finding == Finding::same;
    for (const std::string& reason : reasons) notes.push_back("?: too little to tell: " + reason);
    if (any_same) notes.push_back("~: not told apart from no change; [ ]: where the change is, with 95 % confidence");
    notes.push_back(
        "tested: medians of blocks of steps, as steps that follow each other are alike; p of phases is corrected for "
        "their number (Holm)");
    return notes;
}

std::string number(double value) {
    return fmt::format("{}", value);
}

std::string optional_number(const std::optional<double>& value) {
    return value ? number(*value) : "";
}

void add_side_cells(std::vector<std::string>& cells, const PhaseSide& side) {
    const bool is_there = side.steps > 0;
    cells.push_back(fmt::format("{}", side.steps));
    cells.push_back(fmt::format("{}", side.blocks));
    cells.push_back(is_there ? number(side.median_ms) : "");
    cells.push_back(side.interval_ms ? number(side.interval_ms->low) : "");
    cells.push_back(side.interval_ms ? number(side.interval_ms->high) : "");
    cells.push_back(optional_number(side.share));
}

std::vector<std::string> csv_cells(const Change& change, bool is_step) {
    std::vector<std::string> cells = {change.name, std::string(schema::kind_name(change.kind)),
                                      is_step ? "step" : "phase",
                                      std::string(finding_names[static_cast<std::size_t>(change.finding)])};
    add_side_cells(cells, change.a);
    add_side_cells(cells, change.b);
    cells.push_back(change.test ? number(change.test->shift) : "");
    cells.push_back(optional_number(change.change));
    cells.push_back(change.change_interval ? number(change.change_interval->low) : "");
    cells.push_back(change.change_interval ? number(change.change_interval->high) : "");
    cells.push_back(change.test ? number(change.test->p) : "");
    cells.push_back(change.test ? number(change.corrected_p) : "");
    cells.push_back(change.test ? number(change.test->rank_biserial) : "");
    cells.push_back(fmt::format("{}", change.block_steps));
    return cells;
}

}  // namespace

std::string comparison_text(const Comparison& comparison, bool colors) {
    std::string text =
        comparison.headline + "\n\nA  " + describe_job(comparison.a) + "\nB  " + describe_job(comparison.b) + "\n\n";
    text += change_table(comparison).text(colors ? "\033[1m" : "", colors ? "\033[0m" : "");
    text += "\n";
    for (const std::string& note : table_notes(comparison)) text += note + "\n";
    return text;
}

std::string comparison_markdown(const Comparison& comparison) {
    std::string text = comparison.headline + "\n\n- A: " + describe_job(comparison.a) +
                       "\n- B: " + describe_job(comparison.b) + "\n\n";
    text += change_table(comparison).markdown() + "\n";
    for (const std::string& note : table_notes(comparison)) text += "- " + note + "\n";
    return text;
}

std::string comparison_csv(const Comparison& comparison) {
    PlainTable table;
    for (const char* heading :
         {"name",        "kind",        "level",     "finding",     "a_steps",       "a_blocks",
          "a_median_ms", "a_low_ms",    "a_high_ms", "a_share",     "b_steps",       "b_blocks",
          "b_median_ms", "b_low_ms",    "b_high_ms", "b_share",     "shift_ms",      "change",
          "change_low",  "change_high", "p",         "corrected_p", "rank_biserial", "block_steps"})
        table.add_column(heading, Align::left);
    if (comparison.step) table.add_row(csv_cells(*comparison.step, true));
    for (const Change& change : comparison.phases) table.add_row(csv_cells(change, false));
    return table.csv();
}

}  // namespace cep::compare
