// SPDX-License-Identifier: Apache-2.0
#include "kernels/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "base/units.hpp"
#include "show/plain_table.hpp"

namespace cep::kernels {
namespace {

using tool::Align;
using tool::DurationFormat;
using tool::format_count;
using tool::format_plural;
using tool::PlainTable;

constexpr std::string_view waiting_note =
    "A comm kernel's time contains waiting for the other ranks: the rank that the others wait for has the least of it.";
constexpr std::string_view share_note =
    "Shares are of the sum of all kernels' times; kernels that run side by side count each.";

PlainTable make_table(const std::vector<const char*>& left, const std::vector<const char*>& right) {
    PlainTable table;
    for (const char* heading : left) table.add_column(heading, Align::left);
    for (const char* heading : right) table.add_column(heading, Align::right);
    return table;
}

std::string percent_of(std::int64_t part_ns, std::int64_t whole_ns) {
    if (whole_ns <= 0) return "-";
    return fmt::format("{:.1f} %", 100 * static_cast<double>(part_ns) / static_cast<double>(whole_ns));
}

std::string percent_or_dash(const std::optional<double>& fraction) {
    return fraction ? fmt::format("{:.1f} %", 100 * *fraction) : "-";
}

/// Of times beside each other, one unit: that of the longest.
DurationFormat format_for(std::int64_t longest_ns) {
    return {to_ms(longest_ns), to_ms(longest_ns)};
}

PlainTable class_table(const GpuTime& time) {
    PlainTable table = make_table({"class"}, {"count", "time", "share", "of the window"});
    const std::int64_t all_ns = time.all().time_ns;
    const DurationFormat duration = format_for(all_ns);
    const auto add = [&](std::string name, const ClassTime& one) {
        table.add_row({std::move(name), format_count(one.count), duration(to_ms(one.time_ns)),
                       percent_of(one.time_ns, all_ns), percent_of(one.time_ns, time.window_ns)});
    };
    for (std::size_t i = 0; i < class_names.size(); ++i) {
        add(std::string(class_names[i]), time.classes[i]);
        if (static_cast<KernelClass>(i) == KernelClass::matmul && time.attention.count > 0)
            add("of which attention", time.attention);
    }
    add("all", time.all());
    return table;
}

PlainTable rank_table(const KernelReport& report) {
    PlainTable table = make_table({}, {"rank", "steps", "window", "busy", "idle", "own work", "matmul", "comm",
                                       "memory", "other", "exposed comm", "overlap"});
    std::int64_t longest_ns = 0;
    for (const RankTrace& rank : report.ranks) longest_ns = std::max(longest_ns, rank.time.window_ns);
    const DurationFormat duration = format_for(longest_ns);
    for (const RankTrace& rank : report.ranks) {
        const GpuTime& time = rank.time;
        std::vector<std::string> cells = {fmt::format("{}", rank.rank), format_count(rank.steps.size())};
        for (const std::int64_t time_ns :
             {time.window_ns, time.busy_ns, time.idle_ns(), time.own_work_ns(), time.of(KernelClass::matmul).time_ns,
              time.of(KernelClass::comm).time_ns, time.of(KernelClass::memory).time_ns,
              time.of(KernelClass::other).time_ns, time.exposed_comm_ns()})
            cells.push_back(duration(to_ms(time_ns)));
        cells.push_back(percent_or_dash(time.overlap()));
        table.add_row(std::move(cells));
    }
    return table;
}

PlainTable comparison_table(const KernelReport& report) {
    PlainTable table = make_table({report.per_step ? "a step's" : "the trace's"},
                                  {"longest", "on rank", "shortest", "on rank", "median", "longest over the others"});
    for (const Comparison& one : report.comparisons) {
        const DurationFormat duration(one.longest_ms, one.longest_ms);
        table.add_row({one.what, duration(one.longest_ms), fmt::format("{}", one.longest_rank),
                       duration(one.shortest_ms), fmt::format("{}", one.shortest_rank), duration(one.median_ms),
                       one.excess ? fmt::format("{:+.1f} %", 100 * *one.excess) : "-"});
    }
    return table;
}

// The middle of a long name says the least.
std::string shortened(const std::string& name) {
    constexpr std::size_t max_bytes = 64;
    constexpr std::size_t kept_at_end = 24;
    const std::string text = tool::printable(name);
    const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    if (text.size() <= max_bytes || !ascii) return text;
    return text.substr(0, max_bytes - kept_at_end - 1) + "…" + text.substr(text.size() - kept_at_end);
}

PlainTable kernel_table(const KernelReport& report, std::size_t top) {
    PlainTable table = make_table({"kernel", "class", "kind"}, {"count", "total", "mean", "share"});
    const std::int64_t all_ns = report.total.time.all().time_ns;
    const auto kernels = top_kernels(report.total.kernels, top);
    const std::int64_t longest_ns = kernels.empty() ? 0 : kernels.front()->second.total_ns;
    const DurationFormat total_format = format_for(longest_ns);
    for (const auto* kernel : kernels) {
        const auto& [key, total] = *kernel;
        table.add_row({shortened(key.first), std::string(class_name(key.second)), total.kind, format_count(total.count),
                       total_format(to_ms(total.total_ns)),
                       tool::format_duration_ms(to_ms(total.total_ns) / static_cast<double>(total.count)),
                       percent_of(total.total_ns, all_ns)});
    }
    return table;
}

std::string describe_hidden(const KernelReport& report, std::size_t top) {
    const std::size_t all = report.total.kernels.size();
    if (top == 0 || all <= top) return "";
    return fmt::format("… {} with less time not shown; --top 0 shows all\n", format_plural(all - top, "kernel"));
}

std::string describe_ranks(const KernelReport& report) {
    if (report.missing_ranks.empty()) return format_plural(report.ranks.size(), "rank");
    return fmt::format("{} of {} ranks (missing {} {})", format_count(report.ranks.size()),
                       format_count(report.ranks_expected.value_or(0)),
                       report.missing_ranks.size() == 1 ? "rank" : "ranks", tool::format_ranges(report.missing_ranks));
}

std::string describe_devices(const KernelReport& report) {
    std::set<std::string> names;
    for (const RankTrace& rank : report.ranks)
        for (const auto& [device, name] : rank.devices) names.insert(name.empty() ? "unnamed" : name);
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + tool::printable(name);
    return fmt::format("{} ({})", format_plural(report.total.time.gpus, "GPU"), text);
}

std::string describe_steps(const KernelReport& report) {
    std::set<std::int64_t> steps;
    std::int64_t busy_ns = 0;
    std::int64_t duration_ns = 0;
    std::uint64_t count = 0;
    for (const RankTrace& rank : report.ranks) {
        for (const StepTime& step : rank.steps) {
            steps.insert(step.step);
            add_ns(busy_ns, step.busy_ns);
            add_ns(duration_ns, step.duration_ns);
            ++count;
        }
    }
    if (count == 0) return "none marked (no ProfilerStep annotations)";
    const auto mean = [&](std::int64_t time_ns) {
        return tool::format_duration_ms(to_ms(time_ns) / static_cast<double>(count));
    };
    return fmt::format("{}; a mean step took {}, of which the GPU was busy {}",
                       tool::format_ranges({steps.begin(), steps.end()}), mean(duration_ns), mean(busy_ns));
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
                       percent_or_dash(time.overlap()), duration(to_ms(time.exposed_comm_ns())));
}

/// "heading: value" for all that is not a table.
std::vector<std::pair<std::string, std::string>> facts(const KernelReport& report) {
    const TraceCounts& inputs = report.inputs;
    return {{"ranks", describe_ranks(report) + ", " + describe_devices(report)},
            {"steps", describe_steps(report)},
            {"traces",
             fmt::format("{} in {} ({})", format_plural(inputs.gpu_events, "GPU event"),
                         format_plural(inputs.files, "file"), tool::format_bytes(static_cast<double>(inputs.bytes)))},
            {"GPU time", describe_gpu_time(report.total.time)},
            {"comm", describe_comm(report.total.time)}};
}

std::string milliseconds(std::int64_t time_ns) {
    return fmt::format("{}", to_ms(time_ns));
}

std::vector<std::string> csv_cells(std::string rank, std::size_t steps, const GpuTime& time) {
    std::vector<std::string> cells = {std::move(rank), fmt::format("{}", time.gpus), fmt::format("{}", steps),
                                      fmt::format("{}", time.all().count)};
    for (const std::int64_t time_ns :
         {time.window_ns, time.busy_ns, time.idle_ns(), time.all().time_ns, time.own_work_ns()})
        cells.push_back(milliseconds(time_ns));
    for (const ClassTime& one : time.classes) cells.push_back(milliseconds(one.time_ns));
    for (const std::int64_t time_ns :
         {time.attention.time_ns, time.comm_union_ns, time.overlap_ns, time.exposed_comm_ns()})
        cells.push_back(milliseconds(time_ns));
    cells.push_back(time.overlap() ? fmt::format("{}", *time.overlap()) : "");
    return cells;
}

}  // namespace

std::vector<const KernelTotals::value_type*> top_kernels(const KernelTotals& kernels, std::size_t top) {
    std::vector<const KernelTotals::value_type*> order;
    for (const auto& kernel : kernels) order.push_back(&kernel);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->second.total_ns > b->second.total_ns; });
    if (top > 0 && order.size() > top) order.resize(top);
    return order;
}

std::string describe_gaps(const KernelReport& report) {
    const TraceCounts& inputs = report.inputs;
    std::string text;
    const auto add = [&](std::uint64_t count, std::string_view noun, std::string_view what) {
        if (count > 0) text += (text.empty() ? "" : ", ") + format_plural(count, noun) + " " + std::string(what);
    };
    if (!report.missing_ranks.empty())
        text = fmt::format("{} of {} ranks", format_count(report.ranks.size()),
                           format_count(report.ranks_expected.value_or(0)));
    add(inputs.truncated_files, "trace", "cut off");
    add(inputs.unreadable_files, "input", "not readable");
    add(inputs.empty_traces, "trace", "without GPU events");
    add(inputs.duplicate_traces, "trace", "left out as duplicate");
    add(inputs.repeated_files, "file", "named more than once");
    add(inputs.skipped_events, "event", "skipped");
    return text;
}

std::string report_text(const KernelReport& report, std::size_t top, bool colors) {
    const std::string_view bold = colors ? "\033[1m" : "";
    const std::string_view plain = colors ? "\033[0m" : "";
    std::string text = report.headline + "\n\n";
    for (const auto& [heading, value] : facts(report)) text += fmt::format("{:<9} {}\n", heading, value);
    text += "\n" + class_table(report.total.time).text(bold, plain);
    text += "\n" + rank_table(report).text(bold, plain);
    if (!report.comparisons.empty()) text += "\n" + comparison_table(report).text(bold, plain);
    text += "\n" + kernel_table(report, top).text(bold, plain) + describe_hidden(report, top);
    text += fmt::format("\n{}\n", share_note);
    if (report.total.time.comm_union_ns > 0) text += fmt::format("{}\n", waiting_note);
    return text;
}

std::string report_markdown(const KernelReport& report, std::size_t top) {
    std::string text = "# GPU kernels\n\n" + report.headline + "\n\n";
    for (const auto& [heading, value] : facts(report)) text += fmt::format("- {}: {}\n", heading, value);
    const std::string gaps = describe_gaps(report);
    if (!gaps.empty()) text += "- incomplete: " + gaps + "\n";
    text += fmt::format("\n## Classes\n\n{}\n{}\n", class_table(report.total.time).markdown(), share_note);
    text += "\n## Ranks\n\n" + rank_table(report).markdown();
    if (!report.comparisons.empty()) text += "\n" + comparison_table(report).markdown();
    if (report.total.time.comm_union_ns > 0) text += fmt::format("\n{}\n", waiting_note);
    const std::string hidden = describe_hidden(report, top);
    text += "\n## Kernels\n\n" + kernel_table(report, top).markdown() + (hidden.empty() ? "" : "\n" + hidden);
    return text;
}

std::string report_csv(const KernelReport& report) {
    PlainTable table = make_table({"rank", "gpus", "steps", "events", "window_ms", "busy_ms", "idle_ms", "kernel_ms",
                                   "own_work_ms", "matmul_ms", "comm_ms", "memory_ms", "other_ms", "attention_ms",
                                   "comm_union_ms", "overlap_ms", "exposed_comm_ms", "overlap"},
                                  {});
    std::size_t steps = 0;
    for (const RankTrace& rank : report.ranks) {
        table.add_row(csv_cells(fmt::format("{}", rank.rank), rank.steps.size(), rank.time));
        steps += rank.steps.size();
    }
    table.add_row(csv_cells("all", steps, report.total.time));
    return table.csv();
}

}  // namespace cep::kernels
