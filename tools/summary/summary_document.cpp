// SPDX-License-Identifier: Apache-2.0
#include "summary/summary_document.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "advice/ledger_document.hpp"
#include "advice/settings_advice.hpp"
#include "base/units.hpp"
#include "show/fields.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::tool {
namespace {

using By = Grouping::By;

std::string describe_ranks(const Job& job) {
    const Coverage& coverage = job.coverage;
    std::string text = describe_ranks(coverage);
    if (job.hosts > 0) text += " on " + format_plural(job.hosts, "host");
    if (!coverage.missing_ranks.empty())
        text += fmt::format(" (missing {})", format_numbers("rank", coverage.missing_ranks));
    return text;
}

std::string describe_steps(const StepWindow& steps) {
    if (!steps.first) return "none";
    std::string text = format_from_to(*steps.first, *steps.last);
    text += fmt::format(", {} recorded", format_count(steps.count));
    if (steps.stride && *steps.stride > 1) text += fmt::format(" (every {})", format_integer(*steps.stride));
    return text;
}

std::string describe_rows(const Job& job) {
    const InputCounts& inputs = job.inputs;
    std::string text =
        fmt::format("{} in {} ({})", format_plural(inputs.rows, "row"), format_plural(inputs.files, "file"),
                    format_bytes(static_cast<double>(inputs.bytes)));
    if (job.superseded_rows > 0)
        text += fmt::format("; {} left out: a later attempt did these steps again", format_count(job.superseded_rows));
    if (job.duplicate_rows > 0) text += fmt::format("; {} left out: there twice", format_count(job.duplicate_rows));
    return text;
}

std::vector<std::string> describe_runs(const std::vector<JobRun>& runs) {
    constexpr std::size_t max_shown = 4;
    std::vector<std::string> lines;
    const std::size_t hidden = runs.size() - std::min(runs.size(), max_shown);
    if (hidden > 0) lines.push_back(fmt::format("… {} before these", format_plural(hidden, "earlier run")));
    for (std::size_t i = hidden; i < runs.size(); ++i) {
        const JobRun& run = runs[i];
        std::string line = fmt::format("{}, attempt {}, {}", run.run_id, run.attempt, format_plural(run.ranks, "rank"));
        if (run.first_step)
            line += fmt::format(", steps {} to {}", format_integer(*run.first_step), format_integer(*run.last_step));
        lines.push_back(std::move(line));
    }
    return lines;
}

/// A line for each of the first items; the last line says how many more there are.
template <typename Items, typename Describe>
std::vector<std::string> first_lines(const Items& items, std::size_t max_shown, const Describe& describe) {
    std::vector<std::string> lines;
    for (const auto& item : items) {
        if (lines.size() == max_shown) {
            lines.push_back(fmt::format("… and {} more", format_count(items.size() - max_shown)));
            break;
        }
        lines.push_back(describe(item));
    }
    return lines;
}

std::string describe_open_span(const OpenSpan& span) {
    return fmt::format("{} on rank {} in step {} never ended; open for {} when last seen", span.name, span.rank,
                       format_integer(span.step), format_duration_ms(span.elapsed_ms));
}

std::string describe_mark(const std::pair<const std::string, MarkCount>& mark) {
    constexpr std::size_t max_ranges = 6;
    return fmt::format("{} in {} on {}", mark.first, format_numbers("step", mark.second.steps.numbers(), max_ranges),
                       format_plural(mark.second.ranks.size(), "rank"));
}

/// Names groups of ranks, out of so many ranks.
std::vector<std::string> describe_stride_changes(const std::vector<StrideChangeGroup>& groups, std::size_t all_ranks) {
    constexpr std::size_t max_shown = 4;
    constexpr std::size_t max_ranges = 3;
    return first_lines(groups, max_shown, [&](const StrideChangeGroup& group) {
        const bool is_longer = group.to > group.from;  // else earlier changes are in none of the files
        std::string text = fmt::format("the stride was {} from {} to {} at ", is_longer ? "lengthened" : "shortened",
                                       format_integer(group.from), format_integer(group.to));
        text += (group.steps.size() == 1 ? "step " : "steps ") +
                format_from_to(group.steps.ranges().begin()->first, group.steps.highest());
        text +=
            fmt::format("{} {:g} %", is_longer ? " to keep below" : ", as cep cost far less than", group.max_percent);
        if (group.ranks.size() < all_ranks) text += " on " + format_numbers("rank", group.ranks.numbers(), max_ranges);
        return text;
    });
}

constexpr std::string_view advice_on_memory =
    "memory is short: recompute activations, a smaller batch, shard (FSDP, ZeRO) or offload; retries also stop with "
    "expandable segments";

std::string describe_own_cost(const OwnCost& cost) {
    const auto percent = [](double share) { return fmt::format("{:.2g} %", 100 * share); };
    std::string text = "cep took " + percent(cost.median_share) + " of the recorded steps";
    constexpr double worth_naming = 0.001;
    if (cost.largest_share > std::max(1.5 * cost.median_share, worth_naming))
        text += fmt::format(" on the median rank, {} on rank {}", percent(cost.largest_share), cost.largest_rank);
    return text;
}

void add_facts(Document& document, std::string name, std::vector<std::string> lines) {
    for (std::string& line : lines) document.facts.push_back({std::exchange(name, ""), std::move(line)});
}

/// The first ones, which say most.
std::string describe_settings(const Settings& settings) {
    constexpr std::size_t most = 6;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, settings.size()); ++i)
        text += fmt::format("{}{} {}", i == 0 ? "" : ", ", settings[i].first, settings[i].second);
    return settings.size() > most ? fmt::format("{} and {} more", text, settings.size() - most) : text;
}

std::string describe_differing(const DifferingSetting& differing) {
    const auto or_none = [](const std::string& value) { return value.empty() ? "not set" : value; };
    return fmt::format("{} is {} on {} and {} on most", differing.name, or_none(differing.odd),
                       format_numbers("rank", differing.odd_ranks), or_none(differing.usual));
}

std::vector<SettingAdvice> advise_on_settings(const JobSettings& settings, const Verdict* verdict) {
    return advise_on(settings, verdict == nullptr ? std::vector<TimeLoss>{} : verdict->losses);
}

void add_settings(Document& document, const JobSettings& settings, const Verdict* verdict) {
    constexpr std::size_t most = 3;
    if (settings.usual.empty()) return;
    document.facts.push_back({"settings", describe_settings(settings.usual)});
    for (std::size_t i = 0; i < std::min(most, settings.differing.size()); ++i)
        document.evidence.push_back(describe_differing(settings.differing[i]));
    for (const SettingAdvice& advice : advise_on_settings(settings, verdict)) document.next.push_back(advice.text);
}

void write_settings(JsonWriter& json, const JobSettings& settings, const Verdict* verdict) {
    json.object_or_null("settings", settings.usual.empty() ? nullptr : &settings, [&](const JobSettings& of_job) {
        json.object("usual", [&] {
            for (const auto& [name, value] : of_job.usual) json.members(name, value);
        });
        json.objects("uneven", of_job.differing, [&](const DifferingSetting& one) {
            json.members("name", one.name, "usual", one.usual, "odd", one.odd, "ranks", one.odd_ranks);
        });
        json.objects("advice", advise_on_settings(of_job, verdict),
                     [&](const SettingAdvice& advice) { json.members("id", advice.id, "text", advice.text); });
    });
}

void add_facts(Document& document, const Job& job, const Summary& summary) {
    document.facts.push_back({"ranks", describe_ranks(job)});
    document.facts.push_back({"steps", describe_steps(job.steps)});
    document.facts.push_back({"rows", describe_rows(job)});
    add_facts(document, "run", describe_runs(job.runs));
    if (job.loss.any()) document.facts.push_back({"lost", job.loss.describe()});
    add_facts(document, "open", first_lines(job.open_spans, 5, describe_open_span));
    add_facts(document, "mark", first_lines(job.marks, 10, describe_mark));
    if (summary.memory) document.facts.push_back({"memory", describe_memory(*summary.memory)});
    add_facts(document, "snapshot", first_lines(summary.oom_snapshots, 5, [](const std::string& path) {
                  return "a rank ran out of memory: " + path;
              }));
    if (summary.own_cost) document.facts.push_back({"cost", describe_own_cost(*summary.own_cost)});
    add_facts(document, "stride", describe_stride_changes(summary.stride_changes, job.ranks.size()));
}

void add_notes(Document& document, const Job& job) {
    if (!job.choice.keeps_all())
        document.notes.emplace_back(
            "more durations than are kept: percentiles are of whole steps, chosen by a hash of their number; counts, "
            "means, totals and extremes are of all");
    if (job.repeats_unresolved)
        document.notes.emplace_back(
            "some steps that were done again count with every attempt; choose one with --attempt");
}

// A difference that vanishes in its digits has no sign.
std::string describe_excess(const DurationFormat& duration, double excess_ms) {
    std::string text = duration(excess_ms);
    const bool vanishes = text.find_first_of("123456789") == std::string::npos;
    return vanishes && text.front() == '-' ? text.substr(1) : text;
}

DurationFormat duration_format(const PhaseSummary& phase) {
    return {phase.p50_ms > 0 ? phase.p50_ms : phase.mean_ms, is_missing(phase.p99_ms) ? phase.max_ms : phase.p99_ms};
}

std::string two_digits(double ratio) {
    return fmt::format("{:.2f}", ratio);
}

std::string describe_time(const PhaseSummary& phase, double ms) {
    return duration_format(phase)(ms);
}

/// What is 1.00 in two digits is no difference, and no rank is the slowest. Who waits longest in a collective is not
/// slow.
bool has_slowest(const PhaseSummary& phase) {
    constexpr double least_skew = 1.005;
    return phase.ranks > 1 && phase.kind != schema::Kind::comm && phase.skew.value_or(1) >= least_skew;
}

std::string describe_skew(const PhaseSummary& phase, double skew) {
    return phase.ranks > 1 && phase.kind != schema::Kind::comm ? two_digits(skew) : "-";
}

Field<PhaseSummary> time_field(std::string_view key, std::string_view heading, std::string_view meaning,
                               double PhaseSummary::*member) {
    const auto get = [member](const PhaseSummary& phase) {
        return is_missing(phase.*member) ? std::nullopt : std::optional(phase.*member);
    };
    return {key, heading, meaning, get, describe_time};
}

/// The columns of the phase table. `of_one_rank`: each line is of one rank, so that none is the slowest.
Fields<PhaseSummary> phase_fields(bool of_groups, bool of_one_rank) {
    using P = PhaseSummary;
    using F = Field<P>;
    const auto kind = [](const P& p) { return schema::kind_name(p.kind); };
    const auto clock = [](const P& p) { return text_or_null(clock_names[static_cast<std::size_t>(p.clock)]); };
    const auto slowest = [](const P& p, const Value& rank) { return has_slowest(p) ? describe_value(rank) : "-"; };
    Fields<P> fields = {
        {"name", "phase", "The phase", &P::name},
        F("kind", "kind", "What the phase does: step, compute, comm, data, memory, host or other", kind).detail(4),
        F("clock", of_groups ? "" : "clock", "The clock that timed it: gpu, host or external", clock).detail(5),
        F("count", "count", "Spans", &P::count).detail(2),
        {"ranks", "", "Ranks that have such spans", &P::ranks},
        time_field("mean_ms", "mean", "Mean duration", &P::mean_ms),
        F("sd_ms", "sd", "Standard deviation of the durations", &P::sd_ms, describe_time).detail(3),
        time_field("p50_ms", "p50", "Median duration", &P::p50_ms),
        time_field("p90_ms", "p90", "Duration that one span in ten exceeds", &P::p90_ms).detail(3),
        time_field("p99_ms", "p99", "Duration that one span in a hundred exceeds", &P::p99_ms).detail(of_groups),
        time_field("min_ms", "", "Shortest duration", &P::min_ms),
        time_field("max_ms", "max", "Longest duration", &P::max_ms).detail(1),
        time_field("total_ms", "", "Time of all spans", &P::total_ms),
        {"share", "share", "Share of the time of recorded steps in which nothing hides it", &P::share,
         describe_percent},
        {"slowest_rank", of_one_rank ? "" : "slowest rank",
         "The rank with the most work of its own, by mean, or that the verdict names", &P::slowest_rank, slowest},
        {"skew", of_groups ? "" : "skew", "Mean of the slowest rank over the typical rank's", &P::skew, describe_skew}};
    for (F& field : fields) field.column.has_bars = field.column.key == "share";
    return fields;
}

Table phase_table(const Summary& summary) {
    Table table = table_of(phase_fields(false, false), summary.phases);
    table.set_rest("phase", "with less time");
    return table;
}

std::string describe_window(const GroupSummary& group) {
    if (group.first == group.last) return format_integer(group.first);
    return fmt::format("{}–{}", format_integer(group.first), format_integer(group.last));
}

Fields<GroupSummary> group_fields(By by) {
    using G = GroupSummary;
    using F = Field<G>;
    const auto host = [](const G& group) { return text_or_null(group.host); };
    const auto excess = [](const G& group, double ms) { return describe_excess(duration_format(group.phase), ms); };
    Fields<G> fields;
    if (by == By::rank) fields.push_back(F("rank", "rank", "The rank", &G::first).left());
    if (by == By::step) {
        fields.emplace_back("", "steps", "", describe_window);
        fields.emplace_back("first_step", "", "First step of the window", &G::first);
        fields.emplace_back("last_step", "", "Last step of the window", &G::last);
    } else {
        fields.emplace_back("host", "host", "The host", host);
    }
    add_within(fields, phase_fields(true, by == By::rank), &G::phase);
    fields.emplace_back("excess_ms", "excess",
                        "Mean less the typical mean of all lines; of ranks, of their own work in a step", &G::excess_ms,
                        excess);
    fields.push_back(
        F("median_ratio", "× median", "Median over the typical median of all lines", &G::median_ratio, two_digits)
            .detail(2));
    return fields;
}

/// The groups that exceed the others most first. Of windows of steps, those that will be shown in the order of time.
std::vector<std::size_t> order_of_groups(const Summary& summary, std::size_t limit) {
    const std::vector<GroupSummary>& groups = summary.groups;
    std::vector<std::size_t> order(groups.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const bool in_time = summary.grouping.by == By::step;
    const bool too_many = limit > 0 && groups.size() > limit;
    if (!in_time || too_many)
        std::stable_sort(order.begin(), order.end(),
                         [&groups](std::size_t a, std::size_t b) { return groups[a].excess_ms > groups[b].excess_ms; });
    if (in_time && too_many) std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(limit));
    return order;
}

Table group_table(const Summary& summary, const Rendering& rendering) {
    const Fields<GroupSummary> fields = group_fields(summary.grouping.by);
    Table table(columns_of(fields));
    if (rendering.format == Format::csv)
        for (const GroupSummary& group : summary.groups) table.add(cells_of(fields, group));
    if (rendering.format != Format::text && rendering.format != Format::markdown) return table;
    std::vector<std::size_t> order = order_of_groups(summary, rendering.limit);
    if (rendering.limit > 0 && order.size() > rendering.limit) order.resize(rendering.limit);
    for (const std::size_t i : order) table.add(cells_of(fields, summary.groups[i]));
    table.set_rest("line", "with a smaller excess", summary.groups.size() - order.size());
    return table;
}

// JSON

void write_job(JsonWriter& json, const Job& job) {
    json.object("inputs", [&] {
        write_inputs(json, job.inputs, job.coverage);
        json.members("duplicate_rows", job.duplicate_rows, "superseded_rows", job.superseded_rows, "runs",
                     job.runs.size(), "hosts", job.hosts);
    });
    const StepWindow& steps = job.steps;
    json.object("window", [&] {
        json.members("first_step", steps.first, "last_step", steps.last, "steps", steps.count, "stride", steps.stride);
    });
}

void write_loss(JsonWriter& json, const Loss& loss) {
    json.object("loss", [&] {
        json.members("dropped", loss.dropped(), "capture_skipped", loss.capture_skipped, "errors", loss.cuda_errors,
                     "abandoned", loss.abandoned);
        json.object("dropped_by_cause", [&] {
            for (const auto& [cause, count] : loss.dropped_by_cause()) json.members(cause, count);
        });
        json.members("without_metadata", loss.dropped_meta);
    });
}

void write_history(JsonWriter& json, const Job& job) {
    json.objects("runs", job.runs, [&](const JobRun& run) {
        json.members("run_id", run.run_id, "attempt", run.attempt, "ranks", run.ranks, "first_step", run.first_step,
                     "last_step", run.last_step);
    });
    json.objects("open_spans", job.open_spans, [&](const OpenSpan& open) {
        json.members("name", open.name, "rank", open.rank, "step", open.step, "attempt", open.attempt, "elapsed_ms",
                     open.elapsed_ms);
    });
    json.objects("marks", job.marks, [&](const auto& named) {
        const auto& [name, mark] = named;
        json.members("name", name, "count", mark.count, "ranks", mark.ranks.size(), "steps", mark.steps.numbers());
    });
}

void write_across(JsonWriter& json, std::string_view name, const std::optional<AcrossRanks>& figure) {
    json.object_or_null(name, figure, [&](const AcrossRanks& across) {
        json.members("ranks", across.ranks, "median", across.median, "max", across.max, "max_rank", across.max_rank);
    });
}

void write_counters(JsonWriter& json, const Summary& summary) {
    json.object_or_null("memory", summary.memory, [&](const MemorySummary& memory) {
        write_across(json, "peak_allocated_bytes", memory.peak_allocated_bytes);
        write_across(json, "peak_reserved_bytes", memory.peak_reserved_bytes);
        write_across(json, "fragmentation", memory.fragmentation);
        write_across(json, "used", memory.used);
        json.members("peak_phase", text_or_null(memory.peak_phase), "headroom", memory.headroom(), "alloc_retries",
                     memory.alloc_retries, "is_short", memory.is_short(), "next",
                     memory.is_short() ? std::optional(advice_on_memory) : std::nullopt);
    });
    json.members("oom_snapshots", summary.oom_snapshots);
    json.objects("counters", summary.counters, [&](const CounterSummary& counter) {
        json.members("name", counter.name);
        write_across(json, "max", counter.max);
        write_across(json, "last", counter.last);
    });
}

void write_groups(JsonWriter& json, const Summary& summary) {
    json.members("by", summary.grouping.name());
    write_records(json, "groups", group_fields(summary.grouping.by), summary.groups);
}

void write_summary(JsonWriter& json, const Job& job, const Summary& summary, const Verdict* verdict) {
    json.members("schema", "cep.summary/1");
    write_job(json, job);
    write_records(json, "phases", phase_fields(false, false), summary.phases);
    json.key("efficiency");
    write_efficiency(json, verdict != nullptr ? verdict->efficiency : Efficiency{});
    if (verdict != nullptr) {
        write_ledger(json, verdict->ledger, verdict->losses);
    } else {
        json.key("ledger").null();
    }
    write_loss(json, job.loss);
    json.object_or_null("own_cost", summary.own_cost, [&json](const OwnCost& cost) {
        json.members("median_share", cost.median_share, "largest_share", cost.largest_share, "largest_rank",
                     cost.largest_rank);
    });
    json.objects("stride_changes", summary.stride_changes, [&json](const StrideChangeGroup& group) {
        json.members("from", group.from, "to", group.to, "max_overhead_percent", group.max_percent, "steps",
                     group.steps.numbers(), "ranks", group.ranks.numbers());
    });
    json.key("verdict");
    if (verdict != nullptr) {
        write_verdict(json, *verdict);
    } else {
        json.null();
    }
    write_history(json, job);
    write_counters(json, summary);
    write_settings(json, find_settings(job.ranks), verdict);
    write_groups(json, summary);
    json.members("approximate", !job.choice.keeps_all());
}

}  // namespace

Document summary_document(const Job& job, const Summary& summary, const Verdict* verdict, const Rendering& rendering) {
    Document document;
    if (verdict != nullptr && !summary.phases.empty()) document = verdict_document(*verdict);
    document.title = "Training job";
    document.scope = describe_other_runs(job.inputs);
    add_facts(document, job, summary);
    add_settings(document, find_settings(job.ranks), verdict);
    if (!summary.oom_snapshots.empty())
        document.next.push_back("what held the memory: " + summary.oom_snapshots.front() +
                                " in pytorch.org/memory_viz");
    if (summary.memory && summary.memory->is_short()) document.next.emplace_back(advice_on_memory);
    if (verdict != nullptr && !verdict->losses.empty())
        document.tables.push_back(ledger_table(verdict->ledger, verdict->losses));
    document.csv_table = document.tables.size();
    document.tables.push_back(summary.grouping.by == By::phase ? phase_table(summary)
                                                               : group_table(summary, rendering));
    add_notes(document, job);
    document.write_json = [&job, &summary, verdict](JsonWriter& json) { write_summary(json, job, summary, verdict); };
    return document;
}

}  // namespace cep::tool
