// SPDX-License-Identifier: Apache-2.0
#include "compare/compare_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "compare/sentences.hpp"

namespace cep::compare {
namespace {

using namespace tool;

/// What makes the jobs hard to compare: different numbers of ranks, steps that are sums of phases.
std::vector<std::string> describe_differences(const Comparison& comparison) {
    std::vector<std::string> notes;
    const std::uint64_t ranks_a = comparison.a.coverage.ranks_seen;
    const std::uint64_t ranks_b = comparison.b.coverage.ranks_seen;
    if (ranks_a != ranks_b)
        notes.push_back(
            fmt::format("A has {} and B {}", format_plural(ranks_a, "rank"), format_plural(ranks_b, "rank")));
    const JobSteps& a = comparison.a.steps;
    const JobSteps& b = comparison.b.steps;
    const bool sum_a = !a.is_timed && !a.has_step_spans;
    const bool sum_b = !b.is_timed && !b.has_step_spans;
    if (sum_a || sum_b)
        notes.push_back(fmt::format("no spans of whole steps in {}: a step is the sum of its outermost phases",
                                    sum_a && sum_b ? "A and B" : (sum_a ? "A" : "B")));
    return notes;
}

std::string describe_change(const Change& change) {
    if (change.outcome == Outcome::only_a) return "only in A";
    if (change.outcome == Outcome::only_b) return "only in B";
    if (change.outcome == Outcome::undecided) return "?";
    if (!change.change) return "-";
    const std::string interval =
        fmt::format("[{:+.1f}, {:+.1f}]", 100 * change.change_interval->low, 100 * change.change_interval->high);
    if (change.outcome == Outcome::same && !change.below_threshold) return "~ " + interval;
    return fmt::format("{}{:+.1f} % {}", change.below_threshold ? "~ " : "", 100 * *change.change, interval);
}

std::string describe_share(const Change& change) {
    const std::string a = Cell::percent(change.a.share).text;
    const std::string b = Cell::percent(change.b.share).text;
    if (change.in_both()) return fmt::format("{} → {}", a, b);
    return change.outcome == Outcome::only_a ? a : b;
}

std::vector<Column> change_columns() {
    std::vector<Column> columns = {
        {"name", "phase", Align::left, "", "the phase, or the phase that is the step"},
        {"kind", "kind", Align::left, "", "kind of the phase", false, 2},
        {"level", "", Align::left, "", "step or phase"},
        {"finding", "", Align::left, "", "same, slower, faster, undecided, only_a or only_b"},
    };
    for (const auto& [key, heading] : {std::pair("a", "A"), std::pair("b", "B")}) {
        const std::string side(key);
        columns.push_back({side + "_steps", "", Align::right, "", "recorded steps that have it"});
        columns.push_back({side + "_blocks", "", Align::right, "", "blocks of steps"});
        columns.push_back({side + "_mean_ms", heading, Align::right, "ms", "mean of all recorded steps"});
        columns.push_back({side + "_median_ms", "", Align::right, "ms", "median over the steps that have it"});
        columns.push_back({side + "_low_ms", "", Align::right, "ms", "lower end of the median's 95 % interval"});
        columns.push_back({side + "_high_ms", "", Align::right, "ms", "upper end of the median's 95 % interval"});
        columns.push_back({side + "_p99_ms", "", Align::right, "ms", "99th percentile of the steps that have it"});
        columns.push_back({side + "_share", "", Align::right, "", "mean over the mean of the step"});
    }
    const std::vector<Column> test = {
        {"shift_ms", "", Align::right, "ms", "change of the mean for the work of a step of A"},
        {"change", "change", Align::right, "", "that over the mean of A"},
        {"change_low", "", Align::right, "", "lower end of the change's 95 % interval"},
        {"change_high", "", Align::right, "", "upper end of the change's 95 % interval"},
        {"p", "", Align::right, "", "p of no change"},
        {"corrected_p", "p", Align::right, "", "p after Holm's correction for the number of phases", false, 1},
        {"rank_biserial", "", Align::right, "", "from -1 (B shorter in every pair of steps) to 1 (B longer)"},
        {"", "typical", Align::right, "", "medians of the steps of A and B that have it", false, 4},
        {"", "share", Align::right, "", "shares of the step in A and B", false, 3},
        {"block_steps", "", Align::right, "", "recorded steps in a block"},
    };
    columns.insert(columns.end(), test.begin(), test.end());
    return columns;
}

void add_interval(std::vector<Cell>& cells, const std::optional<ConfidenceInterval>& interval) {
    cells.push_back(interval ? Cell::number(interval->low) : Cell::none());
    cells.push_back(interval ? Cell::number(interval->high) : Cell::none());
}

void add_side_cells(std::vector<Cell>& cells, const PhaseSide& side, const DurationFormat& duration) {
    const auto if_recorded = [&side](double ms) { return side.steps > 0 ? Cell::number(ms) : Cell::none(); };
    cells.push_back(Cell::count(side.steps));
    cells.push_back(Cell::count(side.blocks));
    cells.push_back(side.steps > 0 ? Cell::shown(side.mean_ms, duration(side.mean_ms)) : Cell::none());
    cells.push_back(if_recorded(side.median_ms));
    add_interval(cells, side.interval_ms);
    cells.push_back(if_recorded(side.p99_ms));
    cells.push_back(Cell::number(side.share));
}

void add_test_cells(std::vector<Cell>& cells, const Change& change) {
    const auto of_test = [&](double ChangeTest::*figure) {
        return change.test ? Cell::number((*change.test).*figure) : Cell::none();
    };
    cells.push_back(of_test(&ChangeTest::shift_ms));
    cells.push_back({change.change ? Value(*change.change) : Value(), describe_change(change)});
    add_interval(cells, change.change_interval);
    cells.push_back(of_test(&ChangeTest::p));
    const std::string p = change.corrected_p < 0.001 ? "<0.001" : fmt::format("{:.3f}", change.corrected_p);
    cells.push_back(change.test ? Cell::shown(change.corrected_p, p) : Cell::none());
    cells.push_back(of_test(&ChangeTest::rank_biserial));
    cells.push_back(Cell::words(change.in_both() ? format_times_ms(change.a.median_ms, change.b.median_ms) : "-"));
    cells.push_back(Cell::words(describe_share(change)));
    cells.push_back(Cell::count(change.block_steps));
}

void add_change(Table& table, const Change& change, bool is_step, const std::string& shown_name) {
    const double longest_ms = std::max(change.a.mean_ms, change.b.mean_ms);
    const double shortest_ms = change.in_both() ? std::min(change.a.mean_ms, change.b.mean_ms) : longest_ms;
    const DurationFormat duration(shortest_ms > 0 ? shortest_ms : longest_ms, longest_ms);
    std::vector<Cell> cells = {Cell::shown(change.name, shown_name), Cell::text_of(schema::kind_name(change.kind)),
                               Cell::text_of(is_step ? "step" : "phase"),
                               Cell::text_of(outcome_names[static_cast<std::size_t>(change.outcome)])};
    add_side_cells(cells, change.a, duration);
    add_side_cells(cells, change.b, duration);
    add_test_cells(cells, change);
    table.add(std::move(cells));
}

Table change_table(const Comparison& comparison) {
    Table table(change_columns(), "Phases");
    table.set_rest("shorter phase");
    if (comparison.step) {
        add_change(table, *comparison.step, true, comparison.step->name);
    }
    for (const Change& change : comparison.phases) add_change(table, change, false, change.name);
    return table;
}

/// The lines add up to the last one.
Table piece_table(const Comparison& comparison) {
    Table table({{"piece", "where a step's time goes", Align::left, "", "piece of the ledger"},
                 {"a_ms", "A", Align::right, "ms", "mean of all ranks and steps"},
                 {"b_ms", "B", Align::right, "ms", "mean of all ranks and steps"},
                 {"difference_ms", "difference", Align::right, "ms", "for the work of a step of A"}},
                "Where a step's time goes");
    table.keep_whole();
    if (comparison.pieces.empty()) return table;
    double longest_ms = 0;
    PieceChange all;
    for (const PieceChange& piece : comparison.pieces) {
        longest_ms = std::max({longest_ms, piece.a_ms, piece.b_ms});
        all.a_ms += piece.a_ms;
        all.b_ms += piece.b_ms;
        all.difference_ms += piece.difference_ms;
    }
    const DurationFormat duration(longest_ms, longest_ms);
    const auto add = [&](std::string_view name, const PieceChange& piece) {
        const std::string none = duration(0);
        const std::string a = duration(piece.a_ms);
        const std::string b = duration(piece.b_ms);
        const std::string size = duration(std::abs(piece.difference_ms));
        const std::string difference = (piece.difference_ms < 0 && size != none ? "-" : "+") + size;
        table.add({{Cell::text_of(name), Cell::shown(piece.a_ms, a), Cell::shown(piece.b_ms, b),
                    Cell::shown(piece.difference_ms, difference)},
                   a != none || b != none});
    };
    for (const PieceChange& piece : comparison.pieces) add(facts_of(piece.piece).meaning, piece);
    add("a step", all);
    return table;
}

std::string describe_job(const JobFacts& job) {
    const std::vector<std::int64_t>& steps = job.steps.recorded;
    std::string text = fmt::format("{}: {}, {}", job.name, format_plural(job.coverage.ranks_seen, "rank"),
                                   format_plural(steps.size(), "recorded step"));
    if (!steps.empty()) text += fmt::format(" ({} to {})", format_integer(steps.front()), format_integer(steps.back()));
    return text;
}

std::vector<std::string> make_notes(const Comparison& comparison) {
    std::vector<std::string> notes = describe_differences(comparison);
    std::set<std::string> reasons;
    bool any_same = false;
    for (const Change& change : comparison.phases) {
        if (change.outcome == Outcome::undecided) reasons.insert(change.reason);
        any_same |= change.outcome == Outcome::same;
    }
    any_same |= comparison.step && comparison.step->outcome == Outcome::same;
    for (const std::string& reason : reasons) notes.push_back("? too few steps to test: " + reason);
    const JobSteps& a = comparison.a.steps;
    const JobSteps& b = comparison.b.steps;
    if (a.left_out_ms > 0 || b.left_out_ms > 0)
        notes.push_back(
            fmt::format("start-up, restarts and steps done again are not in these figures: {} in A, {} in B",
                        format_duration_ms(a.left_out_ms), format_duration_ms(b.left_out_ms)));
    if (any_same) notes.emplace_back("~ not significant; [ ] the 95 % confidence interval of the change");
    if (!comparison.same_work.is_step())
        notes.push_back(fmt::format("A and B: {} a step; difference and change: for the same number of {}s",
                                    comparison.same_work.of_devices ? "time of a rank" : "time",
                                    comparison.same_work.unit));
    notes.emplace_back(
        "A and B: mean over all recorded steps; intervals by a block bootstrap, because steps that follow each other "
        "are "
        "alike; p of phases is corrected for their number (Holm)");
    return notes;
}

std::string describe_scope(const Comparison& comparison) {
    std::string text;
    for (const auto& [side, option, job] : {std::tuple("A", "--run-a", &comparison.a), {"B", "--run-b", &comparison.b}})
        if (job->inputs.runs_left_out > 0)
            text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", side, describe_other_runs(job->inputs, option));
    return text;
}

void write_interval(JsonWriter& json, const char* key, const std::optional<ConfidenceInterval>& interval) {
    json.key(key);
    interval ? json.begin_array().number(interval->low).number(interval->high).end_array() : json.null();
}

void write_job(JsonWriter& json, const char* key, const JobFacts& job) {
    const std::vector<std::int64_t>& steps = job.steps.recorded;
    const auto step = [&steps](auto end) { return steps.empty() ? std::nullopt : std::optional(*end); };
    json.object(key, [&] {
        json.members("name", job.name);
        write_inputs(json, job.inputs, job.coverage);
        json.members("steps", steps.size(), "first_step", step(steps.begin()), "last_step", step(steps.rbegin()),
                     "step_is_a_sum", !job.steps.has_step_spans);
        json.members("ranks", job.steps.work.ranks, "tokens_per_step", job.steps.work.tokens, "flops_per_step",
                     job.steps.work.flops);
        json.members("bound", bound_name(job.verdict.bound), "stragglers", name_stragglers(job.verdict));
    });
}

void write_side(JsonWriter& json, const char* key, const PhaseSide& side) {
    json.object_or_null(key, side.steps > 0 ? &side : nullptr, [&json](const PhaseSide& recorded) {
        json.members("steps", recorded.steps, "blocks", recorded.blocks, "mean_ms", recorded.mean_ms);
        write_interval(json, "mean_interval_ms", recorded.mean_interval_ms);
        json.members("median_ms", recorded.median_ms);
        write_interval(json, "median_interval_ms", recorded.interval_ms);
        json.members("p99_ms", recorded.p99_ms, "share", recorded.share);
    });
}

void write_change(JsonWriter& json, const Change& change) {
    json.members("name", change.name, "kind", schema::kind_name(change.kind), "finding",
                 outcome_names[static_cast<std::size_t>(change.outcome)], "reason", text_or_null(change.reason),
                 "change", change.change);
    write_interval(json, "change_interval", change.change_interval);
    json.members("below_threshold", change.below_threshold, "correlation_steps", change.correlation_steps,
                 "block_steps", change.block_steps);
    write_side(json, "a", change.a);
    write_side(json, "b", change.b);
    json.object_or_null("test", change.test, [&](const ChangeTest& test) {
        json.members("u", test.u, "p", test.p, "corrected_p", change.corrected_p, "exact", false, "rank_biserial",
                     test.rank_biserial, "shift_ms", test.shift_ms);
        write_interval(json, "shift_interval_ms", test.shift_interval_ms);
    });
}

void write_comparison(JsonWriter& json, const Comparison& comparison, const std::string& headline) {
    const auto write = [&json](const Change& change) { write_change(json, change); };
    json.members("schema", "cep.compare/1", "headline", headline);
    write_job(json, "a", comparison.a);
    write_job(json, "b", comparison.b);
    json.members("notes", describe_differences(comparison), "alpha", CompareOptions::alpha, "threshold",
                 comparison.options.threshold, "per", comparison.same_work.unit, "of_devices",
                 comparison.same_work.of_devices, "factor", comparison.same_work.factor);
    json.objects("settings_changed", changed_settings(comparison.a.settings, comparison.b.settings),
                 [&](const SettingChange& change) { json.members("name", change.name, "a", change.a, "b", change.b); });
    json.object_or_null("step", comparison.step, write).objects("phases", comparison.phases, write);
    json.objects("pieces", comparison.pieces, [&json](const PieceChange& piece) {
        json.members("piece", facts_of(piece.piece).key, "a_ms", piece.a_ms, "b_ms", piece.b_ms, "difference_ms",
                     piece.difference_ms);
    });
}

Tone tone_of(const Comparison& comparison) {
    if (!comparison.step || comparison.step->outcome == Outcome::undecided) return Tone::warning;
    return comparison.step->outcome == Outcome::slower ? Tone::bad : Tone::neutral;
}

}  // namespace

tool::Document make_document(Comparison made) {
    const auto comparison = std::make_shared<const Comparison>(std::move(made));
    Document document;
    document.title = "Comparison";
    document.scope = describe_scope(*comparison);
    document.headline = describe_step(*comparison);
    document.tone = tone_of(*comparison);
    document.evidence = describe_reasons(*comparison);
    if (comparison->step && comparison->step->outcome == Outcome::undecided)
        document.next.emplace_back("record more steps, or compare jobs that have spans of whole steps");
    document.facts = {{"A", describe_job(comparison->a)}, {"B", describe_job(comparison->b)}};
    document.tables = {piece_table(*comparison), change_table(*comparison)};
    document.csv_table = 1;
    document.notes = make_notes(*comparison);
    document.write_json = [comparison, sentences = document.in_one_text()](JsonWriter& json) {
        write_comparison(json, *comparison, sentences);
    };
    return document;
}

}  // namespace cep::compare
