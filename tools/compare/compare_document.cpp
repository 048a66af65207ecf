// SPDX-License-Identifier: Apache-2.0
#include "compare/comparison.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "show/fields.hpp"

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

std::string describe_change(const Change& change, const Value&) {
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
    const std::string a = change.a.share ? describe_percent(*change.a.share) : "-";
    const std::string b = change.b.share ? describe_percent(*change.b.share) : "-";
    if (change.in_both()) return fmt::format("{} → {}", a, b);
    return change.outcome == Outcome::only_a ? a : b;
}

/// A member of JSON: an interval, or null.
template <typename Get>
auto interval_of(Get get) {
    return [get](JsonWriter& json, const auto& record) {
        const std::optional<ConfidenceInterval> interval = std::invoke(get, record);
        interval ? json.begin_array().number(interval->low).number(interval->high).end_array() : json.null();
    };
}

Fields<PhaseSide> side_fields() {
    using S = PhaseSide;
    const auto time = [](double S::*member) {
        return [member](const S& side) { return side.steps > 0 ? Value(side.*member) : Value(); };
    };
    const auto end = [](double ConfidenceInterval::*which) {
        return [which](const S& side) { return side.interval_ms ? Value((*side.interval_ms).*which) : Value(); };
    };
    return {{"steps", "", "recorded steps that have it", &S::steps},
            {"blocks", "", "blocks of steps", &S::blocks},
            {"mean_ms", "", "mean of all recorded steps", time(&S::mean_ms)},
            {"mean_interval_ms", interval_of(&S::mean_interval_ms)},
            {"median_ms", "", "median over the steps that have it", time(&S::median_ms)},
            {"median_interval_ms", interval_of(&S::interval_ms)},
            {"low_ms", "", "lower end of the median's 95 % interval", end(&ConfidenceInterval::low)},
            {"high_ms", "", "upper end of the median's 95 % interval", end(&ConfidenceInterval::high)},
            {"p99_ms", "", "99th percentile of the steps that have it", time(&S::p99_ms)},
            {"share", "", "mean over the mean of the step", &S::share}};
}

Fields<ChangeTest> test_fields() {
    using T = ChangeTest;
    const auto short_p = [](double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); };
    return {{"u", [](JsonWriter& json, const T& test) { json.value(test.u); }},
            {"p", "", "p of no change", &T::p},
            {"corrected_p", "p", "p after Holm's correction for the number of phases", &T::corrected_p, short_p},
            {"exact", [](JsonWriter& json, const T&) { json.value(false); }},
            {"rank_biserial", "", "from -1 (B shorter in every pair of steps) to 1 (B longer)", &T::rank_biserial},
            {"shift_ms", "", "change of the mean for the work of a step of A", &T::shift_ms},
            {"shift_interval_ms", interval_of(&T::shift_interval_ms)}};
}

/// A member of JSON: an object of `fields`, or null.
template <typename Record, typename Get>
auto object_of(Fields<Record> fields, Get get) {
    return [=](JsonWriter& json, const auto& outer) {
        const Record* const record = get(outer);
        if (record == nullptr) return (void)json.null();
        json.begin_object();
        write_fields(json, fields, *record);
        json.end_object();
    };
}

std::string describe_mean(const Change& change, double ms) {
    const double longest_ms = std::max(change.a.mean_ms, change.b.mean_ms);
    const double shortest_ms = change.in_both() ? std::min(change.a.mean_ms, change.b.mean_ms) : longest_ms;
    return DurationFormat(shortest_ms > 0 ? shortest_ms : longest_ms, longest_ms)(ms);
}

Fields<Change> change_fields(const Change* step) {
    using C = Change;
    using F = Field<C>;
    const auto end = [](double ConfidenceInterval::*which) {
        return [which](const C& one) { return one.change_interval ? Value((*one.change_interval).*which) : Value(); };
    };
    const Fields<PhaseSide> of_side =
        choose(side_fields(), "steps blocks mean_ms mean_interval_ms median_ms median_interval_ms p99_ms share");
    const auto kind = [](const C& one) { return schema::kind_name(one.kind); };
    const auto level = [step](const C& one) { return &one == step ? "step" : "phase"; };
    const auto finding = [](const C& one) { return outcome_names[static_cast<std::size_t>(one.outcome)]; };
    const auto typical = [](const C& one) {
        return one.in_both() ? format_times_ms(one.a.median_ms, one.b.median_ms) : "-";
    };
    Fields<C> fields = {{"name", "phase", "the phase, or the phase that is the step", &C::name},
                        F("kind", "kind", "kind of the phase", kind).detail(2),
                        {"level", "", "step or phase", level},
                        {"finding", "", "same, slower, faster, undecided, only_a or only_b", finding},
                        {"reason", [](JsonWriter& json, const C& one) { json.value(text_or_null(one.reason)); }},
                        {"a", object_of(of_side, [](const C& one) { return one.a.steps > 0 ? &one.a : nullptr; })},
                        {"b", object_of(of_side, [](const C& one) { return one.b.steps > 0 ? &one.b : nullptr; })}};
    add_within(fields, side_fields(), &C::a, "a_");
    add_within(fields, side_fields(), &C::b, "b_");
    for (F& field : fields)
        if (field.column.key == "a_mean_ms" || field.column.key == "b_mean_ms") {
            field.column.heading = field.column.key.starts_with('a') ? "A" : "B";
            field.text = [](const C& one, const Value& ms) { return describe_mean(one, to_double(ms)); };
        }
    add_within(fields, choose(test_fields(), "shift_ms"), &C::test);
    fields.emplace_back("change", "change", "that over the mean of A", &C::change, describe_change);
    fields.emplace_back("change_interval", interval_of(&C::change_interval));
    fields.emplace_back("change_low", "", "lower end of the change's 95 % interval", end(&ConfidenceInterval::low));
    fields.emplace_back("change_high", "", "upper end of the change's 95 % interval", end(&ConfidenceInterval::high));
    add_within(fields, choose(test_fields(), "p corrected_p:1 rank_biserial"), &C::test);
    const Fields<C> others = {
        F("", "typical", "medians of the steps of A and B that have it", typical).right().detail(4),
        F("", "share", "shares of the step in A and B", describe_share).right().detail(3),
        {"block_steps", "", "recorded steps in a block", &C::block_steps},
        {"below_threshold", [](JsonWriter& json, const C& one) { json.value(one.below_threshold); }},
        {"correlation_steps", [](JsonWriter& json, const C& one) { json.value(one.correlation_steps); }},
        {"test", object_of(test_fields(), [](const C& one) { return one.test ? &*one.test : nullptr; })}};
    fields.insert(fields.end(), others.begin(), others.end());
    return fields;
}

Table change_table(const Comparison& comparison) {
    const Fields<Change> fields = change_fields(comparison.step ? &*comparison.step : nullptr);
    Table table(columns_of(fields), "Phases");
    table.set_rest("shorter phase");
    if (comparison.step) table.add(cells_of(fields, *comparison.step));
    for (const Change& change : comparison.phases) table.add(cells_of(fields, change));
    return table;
}

struct PieceLine {
    std::string_view name;
    PieceChange change;
};

/// The lines add up to the last one.
Table piece_table(const Comparison& comparison) {
    PieceLine all{"a step", {}};
    std::vector<PieceLine> lines;
    double longest_ms = 0;
    for (const PieceChange& piece : comparison.pieces) {
        longest_ms = std::max({longest_ms, piece.a_ms, piece.b_ms});
        all.change.a_ms += piece.a_ms;
        all.change.b_ms += piece.b_ms;
        all.change.difference_ms += piece.difference_ms;
        lines.push_back({facts_of(piece.piece).meaning, piece});
    }
    if (!lines.empty()) lines.push_back(all);
    const DurationFormat duration(longest_ms, longest_ms);
    const std::string none = duration(0);
    std::erase_if(lines, [&](const PieceLine& line) {
        return duration(line.change.a_ms) == none && duration(line.change.b_ms) == none;
    });
    const auto difference = [=](double ms) {
        const std::string size = duration(std::abs(ms));
        return (ms < 0 && size != none ? "-" : "+") + size;
    };
    Fields<PieceLine> fields = {{"piece", "where a step's time goes", "piece of the ledger", &PieceLine::name}};
    add_within(fields,
               Fields<PieceChange>{{"a_ms", "A", "mean of all ranks and steps", &PieceChange::a_ms, duration},
                                   {"b_ms", "B", "mean of all ranks and steps", &PieceChange::b_ms, duration},
                                   {"difference_ms", "difference", "for the work of a step of A",
                                    &PieceChange::difference_ms, difference}},
               &PieceLine::change);
    Table table = table_of(fields, lines, "Where a step's time goes");
    table.keep_whole();
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
        "are alike; p of phases is corrected for their number (Holm)");
    return notes;
}

std::string describe_scope(const Comparison& comparison) {
    std::string text;
    for (const auto& [side, option, job] : {std::tuple("A", "--run-a", &comparison.a), {"B", "--run-b", &comparison.b}})
        if (job->inputs.runs_left_out > 0)
            text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", side, describe_other_runs(job->inputs, option));
    return text;
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

void write_comparison(JsonWriter& json, const Comparison& comparison, const std::string& headline) {
    const Fields<Change> fields = choose(
        change_fields(nullptr),
        "name kind finding reason change change_interval below_threshold correlation_steps block_steps a b test");
    const auto write = [&](const Change& change) { write_fields(json, fields, change); };
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
