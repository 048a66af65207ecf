// SPDX-License-Identifier: Apache-2.0
#include "compare/compare_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "base/units.hpp"

namespace cep::compare {
namespace {

using namespace tool;

constexpr std::size_t max_phases_named = 3;

/// A fraction in percent, with as many decimals as it needs to show its size.
std::string percent(double fraction) {
    const double value = 100 * fraction;
    return fmt::format("{:.{}f}", value, std::abs(value) < 1 ? 2 : 1);
}

// A change that vanishes in its digits has no sign.
std::string signed_percent(double fraction) {
    const std::string text = fmt::format("{:+.2f}", 100 * fraction);
    return text == "-0.00" ? "+0.00" : text;
}

std::string describe_medians(const Change& change) {
    return format_times_ms(change.a.median_ms, change.b.median_ms);
}

/// For a decrease, the size and its interval are positive too.
std::string describe_significant_step(const Change& step) {
    const bool is_longer = *step.change > 0;
    const ConfidenceInterval& interval = *step.change_interval;
    return fmt::format("Steps take {} % {} time in B ({}; 95 % interval {} % to {} %)", percent(std::abs(*step.change)),
                       is_longer ? "more" : "less", describe_medians(step),
                       percent(is_longer ? interval.low : -interval.high),
                       percent(is_longer ? interval.high : -interval.low));
}

std::string describe_share_change(const Change& change) {
    if (!change.a.share || !change.b.share || std::abs(*change.a.share - *change.b.share) < 0.005) return "";
    return fmt::format(", its share of the step from {} % to {} %", percent(*change.a.share), percent(*change.b.share));
}

std::string describe_phase(const Change& change) {
    const std::string size = change.change ? fmt::format(" ({:+.1f} %)", 100 * *change.change) : "";
    return fmt::format("{}: {}{}{}.", change.name, describe_medians(change), size, describe_share_change(change));
}

void describe_phases(const Comparison& comparison, std::vector<std::string>& sentences) {
    std::vector<const Change*> changed;
    std::size_t undecided = 0;
    for (const Change& change : comparison.phases) {
        if (change.outcome == Outcome::slower || change.outcome == Outcome::faster) changed.push_back(&change);
        undecided += change.outcome == Outcome::undecided;
    }
    std::stable_sort(changed.begin(), changed.end(), [](const Change* a, const Change* b) {
        return std::abs(a->test->shift) > std::abs(b->test->shift);
    });
    for (std::size_t i = 0; i < std::min(changed.size(), max_phases_named); ++i)
        sentences.push_back(describe_phase(*changed[i]));
    if (changed.size() > max_phases_named)
        sentences.push_back(
            fmt::format("{} changed by less.", format_plural(changed.size() - max_phases_named, "other phase")));
    if (changed.empty() && undecided < comparison.phases.size())
        sentences.emplace_back("No phase changed significantly.");
}

/// "rank 5 in forward"; nothing where the verdict does not know.
std::optional<std::vector<std::string>> name_stragglers(const Verdict& verdict) {
    if (verdict.abstained && verdict.stragglers.empty()) return std::nullopt;
    std::vector<std::string> names;
    for (const StragglerFact& straggler : verdict.stragglers)
        names.push_back(fmt::format("rank {} in {}", straggler.rank, straggler.phase));
    for (const GroupFact& group : verdict.groups)
        names.push_back(fmt::format("ranks {} in {}", format_ranges(group.slow_ranks, 4), group.typical.phase));
    return names;
}

std::string list(const std::optional<std::vector<std::string>>& names) {
    if (!names) return "not known";
    std::string text;
    for (const std::string& name : *names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

void describe_verdict_change(const Verdict& a, const Verdict& b, std::vector<std::string>& sentences) {
    if (a.bound != b.bound)
        sentences.push_back(fmt::format("The bound changed from {} to {}.", bound_name(a.bound), bound_name(b.bound)));
    const auto before = name_stragglers(a);
    const auto after = name_stragglers(b);
    if (before != after) sentences.push_back(fmt::format("Stragglers: {} in A, {} in B.", list(before), list(after)));
}

/// "Steps take 4.2 % less time in B (130.0 ms → 124.5 ms; 95 % interval 3.1 % to 5.3 %)."
std::string describe_step(const Comparison& comparison) {
    if (!comparison.step) return "The selected spans make no whole steps; only phases are compared.";
    const Change& step = *comparison.step;
    if (step.outcome == Outcome::undecided) return fmt::format("Step times cannot be compared: {}.", step.reason);
    if (!step.change) return "A step took no time in A, so that its change has no percentage.";
    if (step.below_threshold)
        return fmt::format("{}, which is below the threshold of {} %.", describe_significant_step(step),
                           percent(comparison.options.threshold));
    if (step.outcome == Outcome::same)
        return fmt::format("The step time did not change significantly: {} % (95 % interval {} % to {} %).",
                           signed_percent(*step.change), signed_percent(step.change_interval->low),
                           signed_percent(step.change_interval->high));
    return describe_significant_step(step) + ".";
}

/// The phases that changed most, and how the verdict changed.
std::vector<std::string> describe_reasons(const Comparison& comparison) {
    std::vector<std::string> sentences;
    describe_phases(comparison, sentences);
    describe_verdict_change(comparison.a.verdict, comparison.b.verdict, sentences);
    return sentences;
}

/// What makes the jobs hard to compare: different numbers of ranks, steps that are sums of phases.
std::vector<std::string> describe_differences(const Comparison& comparison) {
    std::vector<std::string> notes;
    const std::uint64_t ranks_a = comparison.a.coverage.ranks_seen;
    const std::uint64_t ranks_b = comparison.b.coverage.ranks_seen;
    if (ranks_a != ranks_b)
        notes.push_back(
            fmt::format("A has {} and B {}", format_plural(ranks_a, "rank"), format_plural(ranks_b, "rank")));
    const bool sum_a = comparison.a.steps.step_is_a_sum;
    const bool sum_b = comparison.b.steps.step_is_a_sum;
    if (sum_a || sum_b)
        notes.push_back(fmt::format("no spans of whole steps in {}: a step is the sum of its outermost phases",
                                    sum_a && sum_b ? "A and B" : (sum_a ? "A" : "B")));
    return notes;
}

// The median, and the farther end of its interval, as benchstat writes it.
std::string describe_median(const PhaseSide& side, const DurationFormat& duration) {
    if (!side.interval_ms || side.median_ms <= 0) return duration(side.median_ms);
    const double half =
        std::max(side.interval_ms->high - side.median_ms, side.median_ms - side.interval_ms->low) / side.median_ms;
    return fmt::format("{} ± {:.1f} %", duration(side.median_ms), 100 * half);
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

std::string describe_blocks(const Change& change) {
    if (change.block_steps == 0) return "-";
    return fmt::format("{} + {} of {}", change.a.blocks, change.b.blocks, change.block_steps);
}

std::vector<Column> change_columns() {
    std::vector<Column> columns = {
        {"name", "phase", Align::left, "", "the phase, or the phase that is the step"},
        {"kind", "kind", Align::left, "", "kind of the phase"},
        {"level", "", Align::left, "", "step or phase"},
        {"finding", "", Align::left, "", "same, slower, faster, undecided, only_a or only_b"},
    };
    for (const auto& [key, heading] : {std::pair("a", "A"), std::pair("b", "B")}) {
        const std::string side(key);
        columns.push_back({side + "_steps", "", Align::right, "", "recorded steps"});
        columns.push_back({side + "_blocks", "", Align::right, "", "blocks of steps that were tested"});
        columns.push_back({side + "_median_ms", heading, Align::right, "ms", "median over steps"});
        columns.push_back({side + "_low_ms", "", Align::right, "ms", "lower end of the median's 95 % interval"});
        columns.push_back({side + "_high_ms", "", Align::right, "ms", "upper end of the median's 95 % interval"});
        columns.push_back({side + "_share", "", Align::right, "", "median over the median of the step"});
    }
    const std::vector<Column> test = {
        {"shift_ms", "", Align::right, "ms", "Hodges and Lehmann's shift from A to B"},
        {"change", "change", Align::right, "", "shift over the median of A"},
        {"change_low", "", Align::right, "", "lower end of the change's 95 % interval"},
        {"change_high", "", Align::right, "", "upper end of the change's 95 % interval"},
        {"p", "", Align::right, "", "p of Mann and Whitney's test"},
        {"corrected_p", "p", Align::right, "", "p after Holm's correction for the number of phases"},
        {"rank_biserial", "", Align::right, "", "from -1 (B shorter in every pair of blocks) to 1 (B longer)"},
        {"", "share", Align::right, "", "shares of the step in A and B"},
        {"block_steps", "blocks", Align::right, "", "recorded steps in a block"},
    };
    columns.insert(columns.end(), test.begin(), test.end());
    return columns;
}

void add_interval(std::vector<Cell>& cells, const std::optional<ConfidenceInterval>& interval) {
    cells.push_back(interval ? Cell::number(interval->low) : Cell::none());
    cells.push_back(interval ? Cell::number(interval->high) : Cell::none());
}

void add_side_cells(std::vector<Cell>& cells, const PhaseSide& side, const DurationFormat& duration) {
    cells.push_back(Cell::count(side.steps));
    cells.push_back(Cell::count(side.blocks));
    cells.push_back(side.steps > 0 ? Cell::shown(side.median_ms, describe_median(side, duration)) : Cell::none());
    add_interval(cells, side.interval_ms);
    cells.push_back(Cell::number(side.share));
}

void add_test_cells(std::vector<Cell>& cells, const Change& change) {
    const auto of_test = [&](double RankTest::*figure) {
        return change.test ? Cell::number((*change.test).*figure) : Cell::none();
    };
    cells.push_back(of_test(&RankTest::shift));
    cells.push_back({change.change ? Value(*change.change) : Value(), describe_change(change)});
    add_interval(cells, change.change_interval);
    cells.push_back(of_test(&RankTest::p));
    const std::string p = change.corrected_p < 0.001 ? "<0.001" : fmt::format("{:.3f}", change.corrected_p);
    cells.push_back(change.test ? Cell::shown(change.corrected_p, p) : Cell::none());
    cells.push_back(of_test(&RankTest::rank_biserial));
}

void add_change(Table& table, const Change& change, bool is_step, const std::string& shown_name) {
    const double longest_ms = std::max(change.a.median_ms, change.b.median_ms);
    const double shortest_ms = change.in_both() ? std::min(change.a.median_ms, change.b.median_ms) : longest_ms;
    const DurationFormat duration(shortest_ms > 0 ? shortest_ms : longest_ms, longest_ms);
    std::vector<Cell> cells = {Cell::shown(change.name, shown_name), Cell::text_of(schema::kind_name(change.kind)),
                               Cell::text_of(is_step ? "step" : "phase"),
                               Cell::text_of(outcome_names[static_cast<std::size_t>(change.outcome)])};
    add_side_cells(cells, change.a, duration);
    add_side_cells(cells, change.b, duration);
    add_test_cells(cells, change);
    cells.push_back(Cell::words(describe_share(change)));
    cells.push_back(Cell::shown(std::uint64_t{change.block_steps}, describe_blocks(change)));
    table.add(std::move(cells));
}

Table change_table(const Comparison& comparison) {
    Table table(change_columns(), "Phases");
    table.set_rest("shorter phase");
    if (comparison.step) {
        const bool is_sum = comparison.a.steps.step_is_a_sum || comparison.b.steps.step_is_a_sum;
        add_change(table, *comparison.step, true, is_sum ? "step (sum)" : comparison.step->name);
    }
    for (const Change& change : comparison.phases) add_change(table, change, false, change.name);
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
    for (const std::string& reason : reasons) notes.push_back("? too few blocks to test: " + reason);
    if (any_same) notes.emplace_back("~ not significant; [ ] the 95 % confidence interval of the change");
    notes.emplace_back(
        "tested: medians of blocks of steps, because steps that follow each other are alike; p of phases is corrected "
        "for their number (Holm)");
    return notes;
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
                     "step_is_a_sum", job.steps.step_is_a_sum);
        json.members("bound", bound_name(job.verdict.bound), "stragglers", name_stragglers(job.verdict));
    });
}

void write_side(JsonWriter& json, const char* key, const PhaseSide& side) {
    json.object_or_null(key, side.steps > 0 ? &side : nullptr, [&json](const PhaseSide& recorded) {
        json.members("steps", recorded.steps, "blocks", recorded.blocks, "median_ms", recorded.median_ms);
        write_interval(json, "median_interval_ms", recorded.interval_ms);
        json.members("share", recorded.share);
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
    json.object_or_null("test", change.test, [&](const RankTest& test) {
        json.members("u", test.u, "p", test.p, "corrected_p", change.corrected_p, "exact", test.exact, "rank_biserial",
                     test.rank_biserial, "shift_ms", test.shift);
        write_interval(json, "shift_interval_ms", test.shift_interval);
    });
}

void write_comparison(JsonWriter& json, const Comparison& comparison, const std::string& headline) {
    const auto write = [&json](const Change& change) { write_change(json, change); };
    json.members("schema", "cep.compare/1", "headline", headline);
    write_job(json, "a", comparison.a);
    write_job(json, "b", comparison.b);
    json.members("notes", describe_differences(comparison), "alpha", CompareOptions::alpha, "threshold",
                 comparison.options.threshold);
    json.object_or_null("step", comparison.step, write).objects("phases", comparison.phases, write);
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
    document.headline = describe_step(*comparison);
    document.tone = tone_of(*comparison);
    document.evidence = describe_reasons(*comparison);
    if (comparison->step && comparison->step->outcome == Outcome::undecided)
        document.next.emplace_back("record more steps, or compare jobs that have spans of whole steps");
    document.facts = {{"A", describe_job(comparison->a)}, {"B", describe_job(comparison->b)}};
    document.tables.push_back(change_table(*comparison));
    document.notes = make_notes(*comparison);
    std::string sentences = document.headline;
    for (const std::string& sentence : document.evidence) sentences += " " + sentence;
    document.write_json = [comparison, sentences](JsonWriter& json) { write_comparison(json, *comparison, sentences); };
    return document;
}

}  // namespace cep::compare
