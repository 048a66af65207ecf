// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "show/fields.hpp"

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

/// A time of a record, in milliseconds.
template <typename Get>
auto ms_of(Get get) {
    return [get](const auto& record) { return to_ms(std::invoke(get, record)); };
}

struct ClassLine {
    std::string_view name;
    ClassTime time;
};

Fields<ClassLine> class_fields(const GpuTime& all) {
    const std::int64_t all_ns = all.all().time_ns;
    const auto share = [](std::int64_t whole_ns) {
        return [whole_ns](const ClassLine& line) { return share_of(line.time.time_ns, whole_ns); };
    };
    return {{"class", "class", "class of kernels", &ClassLine::name},
            {"count", "count", "GPU events", [](const ClassLine& line) { return line.time.count; }},
            {"time_ms", "time", "sum of their durations",
             [](const ClassLine& line) { return to_ms(line.time.time_ns); }, format_for(all_ns)},
            {"share", "share", "of the sum of all classes", share(all_ns), describe_percent},
            {"window_share", "of the window", "of the windows of all GPUs", share(all.window_ns), describe_percent}};
}

std::vector<ClassLine> class_lines(const GpuTime& time) {
    std::vector<ClassLine> lines;
    for (std::size_t i = 0; i < class_names.size(); ++i) lines.push_back({class_names[i], time.classes[i]});
    return lines;
}

Table class_table(const GpuTime& time) {
    std::vector<ClassLine> lines = class_lines(time);
    lines.push_back({"all", time.all()});
    Table table = table_of(class_fields(time), lines, "Classes");
    table.keep_whole();
    return table;
}

/// The lines of a rank, or of all.
Fields<GpuTime> time_fields(const DurationFormat& duration) {
    using T = GpuTime;
    using F = Field<T>;
    const auto of_class = [](std::size_t which) {
        return [which](const T& time) { return to_ms(time.classes[which].time_ns); };
    };
    Fields<T> fields = {
        {"gpus", "", "GPUs with events", &T::gpus},
        {"events", "", "GPU events", [](const T& time) { return time.all().count; }},
        {"window_ms", "window", "from the first to the last GPU event or step", ms_of(&T::window_ns), duration},
        F("busy_ms", "busy", "time with at least one event", ms_of(&T::busy_ns), duration).detail(2),
        F("idle_ms", "idle", "the rest of the window", ms_of(&T::idle_ns), duration).detail(6),
        {"kernel_ms", "", "sum of the durations of all events",
         [](const T& time) { return to_ms(time.all().time_ns); }},
        {"own_work_ms", "own work", "the same without comm", ms_of(&T::own_work_ns), duration}};
    constexpr int details[] = {1, 2, 1, 5, 4};
    for (std::size_t i = 0; i < class_names.size(); ++i) {
        const std::string name(class_names[i]);
        fields.push_back(F(name + "_ms", name,
                           "sum of the durations of " + name + (name == "comm" ? ", waiting included" : ""),
                           of_class(i), duration)
                             .detail(details[i]));
    }
    fields.emplace_back("comm_union_ms", "", "time with at least one comm kernel", ms_of(&T::comm_union_ns));
    fields.emplace_back("overlap_ms", "", "the part of it with a compute kernel beside it", ms_of(&T::overlap_ns));
    fields.push_back(
        F("exposed_comm_ms", "exposed comm", "the rest of it", ms_of(&T::exposed_comm_ns), duration).detail(3));
    fields.push_back(F("overlap", "overlap", "overlap over time with comm", &T::overlap, describe_percent).detail(7));
    return fields;
}

struct RankLine {
    Value rank;
    std::size_t steps;
    GpuTime time;
};

Table rank_table(const KernelReport& report) {
    std::int64_t longest_ns = 0;
    for (const RankTrace& rank : report.ranks) longest_ns = std::max(longest_ns, rank.time.window_ns);
    Fields<RankLine> fields = {{"rank", "rank", "rank, or all", &RankLine::rank}};
    add_within(fields, time_fields(format_for(longest_ns)), &RankLine::time);
    const auto after_gpus = fields.begin() + 2;
    fields.insert(after_gpus,
                  Field<RankLine>("steps", "steps", "steps that the trace marks", &RankLine::steps).detail(8));
    Table table(columns_of(fields), "Ranks");
    table.set_rest("rank");
    std::size_t steps = 0;
    for (const RankTrace& rank : report.ranks) {
        table.add(cells_of(fields, {rank.rank, rank.steps.size(), rank.time}));
        steps += rank.steps.size();
    }
    table.add({cells_of(fields, {"all", steps, report.total.time}), false, true});
    return table;
}

Fields<RankSpread> spread_fields(bool per_step) {
    using S = RankSpread;
    const auto duration = [](const S& spread, double ms) {
        return DurationFormat(spread.longest_ms, spread.longest_ms)(ms);
    };
    const auto excess = [](double share) { return fmt::format("{:+.1f} %", 100 * share); };
    return {{"what", per_step ? "a step's" : "the trace's", "what is compared", &S::what},
            {"longest_rank", "on rank", "the rank with the longest time", &S::longest_rank},
            {"longest_ms", "longest", "longest time of a rank", &S::longest_ms, duration},
            {"shortest_rank", "on rank", "the rank with the shortest time", &S::shortest_rank},
            {"shortest_ms", "shortest", "shortest time of a rank", &S::shortest_ms, duration},
            {"median_ms", "median", "median over ranks", &S::median_ms, duration},
            {"excess", "longest over the others", "longest over the others' median, less 1", &S::excess, excess},
            {"deficit_ms", "", "shortest under the others' median", &S::deficit_ms},
            {"longest_chance", "", "of such a longest rank where all are alike", &S::longest_chance},
            {"shortest_chance", "", "of such a shortest rank where all are alike", &S::shortest_chance}};
}

Table spread_table(const KernelReport& report) {
    Table table = table_of(choose(spread_fields(report.per_step),
                                  "what longest_ms longest_rank shortest_ms shortest_rank median_ms:1 excess"),
                           report.spreads, "Comparison of ranks");
    table.keep_whole();
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

/// One kernel of a rank or of all.
struct KernelLine {
    std::string name;
    KernelClass kernel_class;
    const KernelTotal* total;

    [[nodiscard]] double mean_ms() const { return to_ms(total->total_ns) / static_cast<double>(total->count); }
    [[nodiscard]] std::string_view longest_name() const {
        return std::max_element(total->full_names.begin(), total->full_names.end(),
                                [](const auto& a, const auto& b) { return a.second < b.second; })
            ->first;
    }
};

/// The longest total first; at most `max_kernels` of them, 0 for all.
std::vector<KernelLine> longest_kernels(const KernelTotals& kernels, std::size_t max_kernels) {
    std::vector<KernelLine> lines;
    for (const auto& [key, total] : kernels) lines.push_back({key.first, key.second, &total});
    std::stable_sort(lines.begin(), lines.end(),
                     [](const KernelLine& a, const KernelLine& b) { return a.total->total_ns > b.total->total_ns; });
    if (max_kernels > 0 && lines.size() > max_kernels) lines.resize(max_kernels);
    return lines;
}

Fields<KernelLine> kernel_fields(std::int64_t all_ns, const DurationFormat& duration) {
    using L = KernelLine;
    using F = Field<L>;
    const auto of = [](auto member) { return [member](const L& line) { return line.total->*member; }; };
    const auto ms = [](auto member) { return [member](const L& line) { return to_ms(line.total->*member); }; };
    return {{"name", "kernel", "name without template arguments", &L::name,
             [](const L& line) { return shortened(line.name); }},
            {"class", "class", "class of the kernel", [](const L& line) { return class_name(line.kernel_class); }},
            F("kind", "kind", "what it does within its class", of(&KernelTotal::kind)).detail(3),
            F("count", "count", "GPU events", of(&KernelTotal::count)).detail(2),
            {"total_ms", "total", "sum of their durations", ms(&KernelTotal::total_ns), duration},
            F("mean_ms", "mean", "mean duration", &L::mean_ms, format_duration_ms).detail(1),
            {"min_ms", "", "shortest duration", ms(&KernelTotal::min_ns)},
            {"max_ms", "", "longest duration", ms(&KernelTotal::max_ns)},
            {"share", "share", "of the sum of all kernels",
             [all_ns](const L& line) { return share_of(line.total->total_ns, all_ns); }, describe_percent},
            {"full_name", "", "the one with the most time, with its template arguments", &L::longest_name},
            {"full_names", "", "such names", [](const L& line) { return line.total->full_names.size(); }}};
}

Table kernel_table(const KernelReport& report) {
    const std::vector<KernelLine> kernels = longest_kernels(report.total.kernels, 0);
    const DurationFormat duration = format_for(kernels.empty() ? 0 : kernels.front().total->total_ns);
    Table table = table_of(kernel_fields(report.total.time.all().time_ns, duration), kernels, "Kernels");
    table.set_rest("kernel", "with less time");
    return table;
}

struct CopyTotal {
    std::string_view direction;
    std::string_view host_memory;  // "" where no host takes part
    std::uint64_t count = 0;
    double bytes = 0;
    double time_ms = 0;

    [[nodiscard]] std::optional<double> gb_per_s() const {
        return bytes > 0 && time_ms > 0 ? std::optional(bytes / time_ms / 1e6) : std::nullopt;
    }
};

/// The direction and the memory of "Memcpy HtoD (Pinned -> Device)".
std::pair<std::string_view, std::string_view> kind_of(std::string_view name) {
    static constexpr std::pair<std::string_view, std::string_view> directions[] = {
        {"HtoD", "host to device"}, {"DtoH", "device to host"}, {"DtoD", "device to device"}, {"PtoP", "peer to peer"}};
    const auto has = [name](std::string_view word) { return name.find(word) != std::string_view::npos; };
    std::string_view direction = "other";
    for (const auto& [word, meaning] : directions)
        if (has(word)) direction = meaning;
    return {direction, is_pageable_copy(name) ? "pageable" : has("Pinned") ? "pinned" : ""};
}

std::vector<CopyTotal> find_copies(const KernelTotals& kernels) {
    std::map<std::pair<std::string_view, std::string_view>, KernelTotal> totals;
    for (const auto& [key, total] : kernels)
        if (key.first.starts_with("Memcpy")) totals[kind_of(key.first)].merge(total);
    std::vector<CopyTotal> copies;
    for (const auto& [kind, total] : totals)
        copies.push_back({kind.first, kind.second, total.count, static_cast<double>(total.bytes),
                          static_cast<double>(total.total_ns) / 1e6});
    return copies;
}

Fields<CopyTotal> copy_fields() {
    using C = CopyTotal;
    const auto bytes = [](const C& copy) { return copy.bytes > 0 ? format_bytes(copy.bytes) : "-"; };
    const auto rate = [](double gb_per_s) { return fmt::format("{:.3g} GB/s", gb_per_s); };
    return {{"direction", "copies", "", &C::direction},
            {"host_memory", "host memory", "", [](const C& copy) { return text_or_null(copy.host_memory); }},
            {"count", "count", "", &C::count},
            {"bytes", "bytes", "", &C::bytes, bytes},
            {"time_ms", "time", "", &C::time_ms, format_duration_ms},
            {"gb_per_s", "bandwidth", "", &C::gb_per_s, rate}};
}

Table copy_table(const KernelTotals& kernels) {
    Table table = table_of(copy_fields(), find_copies(kernels), "Copies");
    table.keep_whole();
    return table;
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
    return fmt::format("{} ({})", format_plural(report.total.time.gpus, "GPU"), join(names, ", "));
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
                       describe_percent(time.overlap().value_or(0)), duration(to_ms(time.exposed_comm_ns())));
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
    write_fields(json, time_fields(format_for(0)), time);
    json.object("classes", [&] {
        for (const ClassLine& line : class_lines(time))
            json.object(line.name,
                        [&] { write_fields(json, choose(class_fields(time), "count time_ms share"), line); });
    });
}

void write_kernels(JsonWriter& json, const KernelTotals& kernels, std::int64_t all_ns, std::size_t max_kernels) {
    write_records(json, "kernels", kernel_fields(all_ns, format_for(0)), longest_kernels(kernels, max_kernels));
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

void write_rank(JsonWriter& json, const RankTrace& rank, std::size_t max_kernels) {
    constexpr std::string_view sources[] = {"trace", "name", "order"};
    json.members("rank", rank.rank, "rank_from", sources[static_cast<std::size_t>(rank.rank_source)], "files",
                 rank.paths);
    json.objects("devices", rank.devices, [&json](const auto& device) {
        json.members("device", device.first, "name", text_or_null(device.second));
    });
    json.members("window_begin_ns", rank.window_begin_ns, "window_end_ns", rank.window_end_ns);
    write_time(json, rank.time);
    write_steps(json, rank.steps);
    write_kernels(json, rank.kernels, rank.time.all().time_ns, max_kernels);
}

void write_report(JsonWriter& json, const KernelReport& report, std::size_t max_kernels, const std::string& headline) {
    json.members("schema", "cep.kernels/3", "headline", headline);
    write_inputs(json, report);
    json.object("total", [&] {
        write_time(json, report.total.time);
        write_records(json, "copies", copy_fields(), find_copies(report.total.kernels));
        write_kernels(json, report.total.kernels, report.total.time.all().time_ns, max_kernels);
    });
    json.objects("ranks", report.ranks, [&](const RankTrace& rank) { write_rank(json, rank, max_kernels); });
    json.object("comparison", [&] {
        json.members("per", report.per_step ? "step" : "trace");
        write_records(json, "rows", spread_fields(report.per_step), report.spreads);
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
    return document.in_one_text() + " " + join(document.next, "; ");
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
