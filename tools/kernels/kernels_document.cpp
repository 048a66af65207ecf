// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "kernels/copies.hpp"
#include "kernels/sentences.hpp"

namespace cep::kernels {
namespace {

using namespace tool;

std::optional<double> share_of(std::int64_t part_ns, std::int64_t whole_ns) {
    if (whole_ns <= 0) return std::nullopt;
    return static_cast<double>(part_ns) / static_cast<double>(whole_ns);
}

/// For times that are compared with each other: the unit of the longest.
DurationFormat format_for(std::int64_t longest_ns) {
    return {to_ms(longest_ns), to_ms(longest_ns)};
}

Cell time_cell(std::int64_t time_ns, const DurationFormat& duration) {
    return Cell::shown(to_ms(time_ns), duration(to_ms(time_ns)));
}

Cell time_cell(double time_ms, const DurationFormat& duration) {
    return Cell::shown(time_ms, duration(time_ms));
}

Table class_table(const GpuTime& time) {
    Table table(
        {
            {"class", "class", Align::left, "", "class of kernels"},
            {"count", "count", Align::right, "", "GPU events"},
            {"time_ms", "time", Align::right, "ms", "sum of their durations"},
            {"share", "share", Align::right, "", "of the sum of all classes"},
            {"window_share", "of the window", Align::right, "", "of the windows of all GPUs"},
        },
        "Classes");
    table.keep_whole();
    const std::int64_t all_ns = time.all().time_ns;
    const DurationFormat duration = format_for(all_ns);
    const auto add = [&](std::string_view name, const ClassTime& one) {
        table.add({Cell::text_of(name), Cell::count(one.count), time_cell(one.time_ns, duration),
                   Cell::percent(share_of(one.time_ns, all_ns)), Cell::percent(share_of(one.time_ns, time.window_ns))});
    };
    for (std::size_t i = 0; i < class_names.size(); ++i) {
        add(class_names[i], time.classes[i]);
    }
    add("all", time.all());
    return table;
}

std::vector<Column> rank_columns() {
    return {
        {"rank", "rank", Align::right, "", "rank, or all"},
        {"gpus", "", Align::right, "", "GPUs with events"},
        {"steps", "steps", Align::right, "", "steps that the trace marks", false, 8},
        {"events", "", Align::right, "", "GPU events"},
        {"window_ms", "window", Align::right, "ms", "from the first to the last GPU event or step"},
        {"busy_ms", "busy", Align::right, "ms", "time with at least one event", false, 2},
        {"idle_ms", "idle", Align::right, "ms", "the rest of the window", false, 6},
        {"kernel_ms", "", Align::right, "ms", "sum of the durations of all events"},
        {"own_work_ms", "own work", Align::right, "ms", "the same without comm"},
        {"matmul_ms", "matmul", Align::right, "ms", "sum of the durations of matmul", false, 1},
        {"attention_ms", "attention", Align::right, "ms", "sum of the durations of attention", false, 2},
        {"comm_ms", "comm", Align::right, "ms", "sum of the durations of comm, waiting included", false, 1},
        {"memory_ms", "memory", Align::right, "ms", "sum of the durations of memory", false, 5},
        {"other_ms", "other", Align::right, "ms", "sum of the durations of other", false, 4},
        {"comm_union_ms", "", Align::right, "ms", "time with at least one comm kernel"},
        {"overlap_ms", "", Align::right, "ms", "the part of it with a compute kernel beside it"},
        {"exposed_comm_ms", "exposed comm", Align::right, "ms", "the rest of it", false, 3},
        {"overlap", "overlap", Align::right, "", "overlap over time with comm", false, 7},
    };
}

std::vector<Cell> rank_cells(Cell rank, std::size_t steps, const GpuTime& time, const DurationFormat& duration) {
    std::vector<Cell> cells = {std::move(rank), Cell::count(time.gpus), Cell::count(steps),
                               Cell::count(time.all().count)};
    for (const std::int64_t time_ns :
         {time.window_ns, time.busy_ns, time.idle_ns(), time.all().time_ns, time.own_work_ns()})
        cells.push_back(time_cell(time_ns, duration));
    for (const ClassTime& one : time.classes) cells.push_back(time_cell(one.time_ns, duration));
    for (const std::int64_t time_ns : {time.comm_union_ns, time.overlap_ns, time.exposed_comm_ns()})
        cells.push_back(time_cell(time_ns, duration));
    cells.push_back(Cell::percent(time.overlap()));
    return cells;
}

Table rank_table(const KernelReport& report) {
    Table table(rank_columns(), "Ranks");
    table.set_rest("rank");
    std::int64_t longest_ns = 0;
    for (const RankTrace& rank : report.ranks) longest_ns = std::max(longest_ns, rank.time.window_ns);
    const DurationFormat duration = format_for(longest_ns);
    std::size_t steps = 0;
    for (const RankTrace& rank : report.ranks) {
        table.add(rank_cells(Cell::integer(rank.rank), rank.steps.size(), rank.time, duration));
        steps += rank.steps.size();
    }
    table.add({rank_cells(Cell::text_of("all"), steps, report.total.time, duration), false, true});
    return table;
}

Table spread_table(const KernelReport& report) {
    Table table(
        {
            {"what", report.per_step ? "a step's" : "the trace's", Align::left, "", "what is compared"},
            {"longest_ms", "longest", Align::right, "ms", "longest time of a rank"},
            {"longest_rank", "on rank", Align::right, "", "its rank"},
            {"shortest_ms", "shortest", Align::right, "ms", "shortest time of a rank"},
            {"shortest_rank", "on rank", Align::right, "", "its rank"},
            {"median_ms", "median", Align::right, "ms", "median over ranks", false, 1},
            {"excess", "longest over the others", Align::right, "", "longest over the others' median, less 1"},
        },
        "Comparison of ranks");
    table.keep_whole();
    for (const RankSpread& one : report.spreads) {
        const DurationFormat duration(one.longest_ms, one.longest_ms);
        table.add({Cell::text_of(one.what), time_cell(one.longest_ms, duration), Cell::integer(one.longest_rank),
                   time_cell(one.shortest_ms, duration), Cell::integer(one.shortest_rank),
                   time_cell(one.median_ms, duration),
                   Cell::shown_if(one.excess, [](double excess) { return fmt::format("{:+.1f} %", 100 * excess); })});
    }
    return table;
}

// The middle of a long name is left out.
std::string shortened(const std::string& name) {
    constexpr std::size_t max_bytes = 48;
    constexpr std::size_t kept_at_end = 18;
    const bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    if (name.size() <= max_bytes || !ascii) return name;
    return name.substr(0, max_bytes - kept_at_end - 1) + "…" + name.substr(name.size() - kept_at_end);
}

/// The longest total first; at most `max_kernels` of them, 0 for all.
std::vector<const KernelTotals::value_type*> longest_kernels(const KernelTotals& kernels, std::size_t max_kernels) {
    std::vector<const KernelTotals::value_type*> order;
    for (const auto& kernel : kernels) order.push_back(&kernel);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->second.total_ns > b->second.total_ns; });
    if (max_kernels > 0 && order.size() > max_kernels) order.resize(max_kernels);
    return order;
}

double mean_ms(const KernelTotal& total) {
    return to_ms(total.total_ns) / static_cast<double>(total.count);
}

Table kernel_table(const KernelReport& report) {
    Table table(
        {
            {"name", "kernel", Align::left, "", "name without template arguments"},
            {"class", "class", Align::left, "", "class of the kernel"},
            {"kind", "kind", Align::left, "", "what it does within its class", false, 3},
            {"count", "count", Align::right, "", "GPU events", false, 2},
            {"total_ms", "total", Align::right, "ms", "sum of their durations"},
            {"mean_ms", "mean", Align::right, "ms", "mean duration", false, 1},
            {"share", "share", Align::right, "", "of the sum of all kernels"},
        },
        "Kernels");
    table.set_rest("kernel", "with less time");
    const std::int64_t all_ns = report.total.time.all().time_ns;
    const auto kernels = longest_kernels(report.total.kernels, 0);
    const DurationFormat duration = format_for(kernels.empty() ? 0 : kernels.front()->second.total_ns);
    for (const auto* kernel : kernels) {
        const auto& [key, total] = *kernel;
        table.add({Cell::shown(key.first, shortened(key.first)), Cell::text_of(class_name(key.second)),
                   Cell::text_of(total.kind), Cell::count(total.count), time_cell(total.total_ns, duration),
                   Cell::shown(mean_ms(total), format_duration_ms(mean_ms(total))),
                   Cell::percent(share_of(total.total_ns, all_ns))});
    }
    return table;
}

/// The rank whose allocator had the most.
const RankTrace* fullest_rank(const KernelReport& report) {
    const auto fullest = std::max_element(report.ranks.begin(), report.ranks.end(), [](const auto& a, const auto& b) {
        return a.memory.peak_allocated_bytes < b.memory.peak_allocated_bytes;
    });
    return fullest != report.ranks.end() && fullest->memory.peak_allocated_bytes > 0 ? &*fullest : nullptr;
}

std::string describe_memory(const RankTrace& rank) {
    const auto bytes = [](std::int64_t count) { return format_bytes(static_cast<double>(count)); };
    std::string text = fmt::format("peak {} allocated, {} reserved", bytes(rank.memory.peak_allocated_bytes),
                                   bytes(rank.memory.peak_reserved_bytes));
    if (rank.memory_bytes > 0) text += " of " + bytes(rank.memory_bytes);
    return fmt::format("{} (rank {}); {}", text, rank.rank, format_plural(rank.memory.allocations, "allocation"));
}

std::string describe_coverage(const Coverage& coverage) {
    const std::string text = describe_ranks(coverage);
    if (coverage.missing_ranks.empty()) return text;
    return fmt::format("{} (missing {})", text, format_numbers("rank", coverage.missing_ranks));
}

std::string describe_devices(const KernelReport& report) {
    std::set<std::string> names;
    for (const RankTrace& rank : report.ranks)
        for (const auto& [device, name] : rank.devices) names.insert(name.empty() ? "unnamed" : name);
    return fmt::format("{} ({})", format_plural(report.total.time.gpus, "GPU"), fmt::join(names, ", "));
}

std::string describe_steps(const KernelReport& report) {
    std::set<std::int64_t> steps;
    std::int64_t busy_ns = 0;
    std::int64_t duration_ns = 0;
    std::uint64_t count = 0;
    for (const RankTrace& rank : report.ranks) {
        for (const TraceStep& step : rank.steps) {
            steps.insert(step.step);
            add_ns(busy_ns, step.busy_ns);
            add_ns(duration_ns, step.duration_ns);
            ++count;
        }
    }
    if (count == 0) return "none marked (no ProfilerStep annotations)";
    const auto mean = [&](std::int64_t time_ns) {
        return format_duration_ms(to_ms(time_ns) / static_cast<double>(count));
    };
    return fmt::format("{}; a mean step took {}, of which the GPU was busy {}",
                       format_ranges({steps.begin(), steps.end()}), mean(duration_ns), mean(busy_ns));
}

std::string describe_gpu_time(const GpuTime& time) {
    const DurationFormat duration = format_for(time.window_ns);
    return fmt::format("{} busy, {} idle, in windows of {} in all", duration(to_ms(time.busy_ns)),
                       duration(to_ms(time.idle_ns())), duration(to_ms(time.window_ns)));
}

std::string describe_comm(const GpuTime& time) {
    if (time.comm_union_ns == 0) return "none";
    const DurationFormat duration = format_for(time.comm_union_ns);
    return fmt::format("{}, of which {} ({}) with compute beside it and {} exposed",
                       duration(to_ms(time.comm_union_ns)), duration(to_ms(time.overlap_ns)),
                       Cell::percent(time.overlap()).text, duration(to_ms(time.exposed_comm_ns())));
}

std::vector<Fact> make_facts(const KernelReport& report) {
    const TraceCounts& inputs = report.inputs;
    std::vector<Fact> facts = {
        {"ranks", describe_coverage(report.coverage) + ", " + describe_devices(report)},
        {"steps", describe_steps(report)},
        {"traces", fmt::format("{} in {} ({})", format_plural(inputs.gpu_events, "GPU event"),
                               format_plural(inputs.files, "file"), format_bytes(static_cast<double>(inputs.bytes)))},
        {"GPU time", describe_gpu_time(report.total.time)},
        {"comm", describe_comm(report.total.time)}};
    if (const RankTrace* const fullest = fullest_rank(report)) facts.push_back({"memory", describe_memory(*fullest)});
    const std::string gaps = describe_gaps(report);
    if (!gaps.empty()) facts.push_back({"gaps", gaps});
    return facts;
}

std::vector<std::string> make_notes(const KernelReport& report) {
    std::vector<std::string> notes = {
        "Shares are of the sum of all kernels' times; kernels that run side by side count each."};
    if (report.total.time.comm_union_ns > 0)
        notes.emplace_back(
            "A comm kernel's time contains waiting for the other ranks: the rank that the others wait for waits "
            "least.");
    return notes;
}

void write_inputs(JsonWriter& json, const KernelReport& report) {
    const TraceCounts& inputs = report.inputs;
    json.object("inputs", [&] {
        json.members("files", inputs.files, "bytes", inputs.bytes, "events", inputs.events, "gpu_events",
                     inputs.gpu_events, "ranks_seen", report.ranks.size(), "ranks_expected",
                     report.coverage.ranks_expected, "missing_ranks", report.coverage.missing_ranks, "truncated_files",
                     inputs.truncated_files, "unreadable_files", inputs.unreadable_files, "repeated_files",
                     inputs.repeated_files, "duplicate_traces", inputs.duplicate_traces, "traces_without_gpu_events",
                     inputs.empty_traces, "skipped_events", inputs.skipped_events, "messages", inputs.messages);
    });
}

void write_time(JsonWriter& json, const GpuTime& time) {
    const std::int64_t all_ns = time.all().time_ns;
    json.members("gpus", time.gpus, "window_ms", to_ms(time.window_ns), "busy_ms", to_ms(time.busy_ns), "idle_ms",
                 to_ms(time.idle_ns()), "kernel_ms", to_ms(all_ns), "own_work_ms", to_ms(time.own_work_ns()));
    const auto write_class = [&](std::string_view name, const ClassTime& one) {
        json.object(name, [&] {
            json.members("count", one.count, "time_ms", to_ms(one.time_ns), "share", share_of(one.time_ns, all_ns));
        });
    };
    json.object("classes", [&] {
        for (std::size_t i = 0; i < class_names.size(); ++i) write_class(class_names[i], time.classes[i]);
    });
    json.object("comm", [&] {
        json.members("union_ms", to_ms(time.comm_union_ns), "overlap_ms", to_ms(time.overlap_ns), "exposed_ms",
                     to_ms(time.exposed_comm_ns()), "overlap", time.overlap());
    });
}

const std::string& longest_name(const KernelTotal& total) {
    auto longest = total.full_names.begin();
    for (auto name = longest; name != total.full_names.end(); ++name)
        if (name->second > longest->second) longest = name;
    return longest->first;
}

void write_kernels(JsonWriter& json, const KernelTotals& kernels, std::int64_t all_ns, std::size_t max_kernels) {
    json.objects("kernels", longest_kernels(kernels, max_kernels), [&](const auto* kernel) {
        const auto& [key, total] = *kernel;
        json.members("name", key.first, "class", class_name(key.second), "kind", total.kind, "count", total.count,
                     "total_ms", to_ms(total.total_ns), "mean_ms", mean_ms(total), "min_ms", to_ms(total.min_ns),
                     "max_ms", to_ms(total.max_ns), "share", share_of(total.total_ns, all_ns), "full_name",
                     longest_name(total), "full_names", total.full_names.size());
    });
}

void write_steps(JsonWriter& json, const std::vector<TraceStep>& steps) {
    json.objects("steps", steps, [&json](const TraceStep& step) {
        json.members("step", step.step, "duration_ms", to_ms(step.duration_ns), "busy_ms", to_ms(step.busy_ns));
    });
    std::int64_t busy_ns = 0;
    for (const TraceStep& step : steps) add_ns(busy_ns, step.busy_ns);
    std::optional<double> mean_busy_ms;
    if (!steps.empty()) mean_busy_ms = to_ms(busy_ns) / static_cast<double>(steps.size());
    json.members("mean_step_busy_ms", mean_busy_ms);
}

/// null where no event of the allocator is in the trace.
void write_memory(JsonWriter& json, const RankTrace& rank) {
    if (rank.memory.peak_allocated_bytes == 0) return static_cast<void>(json.key("memory").null());
    json.object("memory", [&] {
        json.members("peak_allocated_bytes", rank.memory.peak_allocated_bytes, "peak_reserved_bytes",
                     rank.memory.peak_reserved_bytes, "allocations", rank.memory.allocations, "device_bytes",
                     rank.memory_bytes > 0 ? std::optional(rank.memory_bytes) : std::nullopt);
    });
}

void write_rank(JsonWriter& json, const RankTrace& rank, std::size_t max_kernels) {
    constexpr std::string_view sources[] = {"trace", "name", "order"};
    json.members("rank", rank.rank, "rank_from", sources[static_cast<std::size_t>(rank.rank_source)], "files",
                 rank.paths);
    json.objects("devices", rank.devices, [&json](const auto& device) {
        json.members("device", device.first, "name", text_or_null(device.second));
    });
    json.members("window_begin_ns", rank.window_begin_ns, "window_end_ns", rank.window_end_ns);
    write_time(json, rank.time);
    write_memory(json, rank);
    write_steps(json, rank.steps);
    write_kernels(json, rank.kernels, rank.time.all().time_ns, max_kernels);
}

void write_report(JsonWriter& json, const KernelReport& report, std::size_t max_kernels, const std::string& headline) {
    json.members("schema", "cep.kernels/2", "headline", headline);
    write_inputs(json, report);
    json.object("total", [&] {
        write_time(json, report.total.time);
        write_copies(json, report.total.kernels);
        write_kernels(json, report.total.kernels, report.total.time.all().time_ns, max_kernels);
    });
    json.objects("ranks", report.ranks, [&](const RankTrace& rank) { write_rank(json, rank, max_kernels); });
    json.object("comparison", [&] {
        json.members("per", report.per_step ? "step" : "trace");
        json.objects("rows", report.spreads, [&json](const RankSpread& one) {
            json.members("what", one.what, "longest_rank", one.longest_rank, "longest_ms", one.longest_ms,
                         "shortest_rank", one.shortest_rank, "shortest_ms", one.shortest_ms, "median_ms", one.median_ms,
                         "excess", one.excess, "deficit_ms", one.deficit_ms, "longest_chance", one.longest_chance,
                         "shortest_chance", one.shortest_chance);
        });
    });
}

/// The headline, the reasons and the advice of the document; and for JSON all of them in one text.
std::string add_sentences(Document& document, const KernelReport& report) {
    if (report.inputs.are_of_cpus()) {
        document.headline = "No GPU did anything: the traces are of CPUs only.";
        document.next = {"record ProfilerActivity.CUDA too; key_averages() has the operators of the CPU"};
        return document.headline + " " + document.next.front();
    }
    const RankVerdict ranks = judge_ranks(report);
    document.headline = describe_busy(report);
    document.evidence = describe_work(report);
    if (!ranks.stands_out && !ranks.text.empty()) document.evidence.push_back(ranks.text);
    document.next = advise(report);
    if (!ranks.advice.empty()) document.next.insert(document.next.begin(), ranks.advice);
    if (ranks.stands_out) {
        document.headline = ranks.text + " " + document.headline;
        document.tone = Tone::warning;
    }
    return document.in_one_text() + " " + fmt::format("{}", fmt::join(document.next, "; "));
}

}  // namespace

std::string describe_gaps(const KernelReport& report) {
    const TraceCounts& inputs = report.inputs;
    std::string text;
    const auto add = [&](std::uint64_t count, std::string_view noun, std::string_view what) {
        if (count > 0) text += (text.empty() ? "" : ", ") + format_plural(count, noun) + " " + std::string(what);
    };
    if (!report.coverage.missing_ranks.empty()) text = describe_ranks(report.coverage);
    add(inputs.truncated_files, "trace", "cut off");
    add(inputs.unreadable_files, "input", "unreadable");
    add(inputs.empty_traces, "trace", "without GPU events");
    add(inputs.duplicate_traces, "trace", "left out as duplicate");
    add(inputs.repeated_files, "file", "named more than once");
    add(inputs.skipped_events, "event", "skipped");
    return text;
}

tool::Document make_document(KernelReport made, const tool::Rendering& rendering) {
    const Format format = rendering.format;
    const std::size_t max_kernels = rendering.limit;
    const auto report = std::make_shared<const KernelReport>(std::move(made));
    Document document;
    document.title = "GPU kernels";
    const std::string sentences = add_sentences(document, *report);
    if (!report->ranks.empty()) document.facts = make_facts(*report);
    const bool for_people = (format == Format::text || format == Format::markdown) && !report->ranks.empty();
    if (for_people) document.tables.push_back(class_table(report->total.time));
    if (for_people || format == Format::csv) document.tables.push_back(rank_table(*report));
    if (for_people) document.tables.push_back(spread_table(*report));
    if (for_people) document.tables.push_back(kernel_table(*report));
    if (for_people) document.tables.push_back(copy_table(report->total.kernels));
    if (!report->ranks.empty()) document.notes = make_notes(*report);
    document.write_json = [report, max_kernels, sentences](JsonWriter& json) {
        write_report(json, *report, max_kernels, sentences);
    };
    return document;
}

}  // namespace cep::kernels
