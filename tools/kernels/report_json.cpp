// SPDX-License-Identifier: Apache-2.0
#include "kernels/report_text.hpp"
#include "show/json_writer.hpp"

namespace cep::kernels {
namespace {

using tool::JsonWriter;

void write_inputs(JsonWriter& json, const KernelReport& report) {
    const TraceCounts& inputs = report.inputs;
    json.key("inputs").begin_object();
    json.key("files").count(inputs.files);
    json.key("bytes").count(inputs.bytes);
    json.key("events").count(inputs.events);
    json.key("gpu_events").count(inputs.gpu_events);
    json.key("ranks_seen").count(report.ranks.size());
    json.key("ranks_expected").count_or_null(report.ranks_expected);
    json.key("missing_ranks").integers(report.missing_ranks);
    json.key("truncated_files").count(inputs.truncated_files);
    json.key("unreadable_files").count(inputs.unreadable_files);
    json.key("repeated_files").count(inputs.repeated_files);
    json.key("duplicate_traces").count(inputs.duplicate_traces);
    json.key("traces_without_gpu_events").count(inputs.empty_traces);
    json.key("skipped_events").count(inputs.skipped_events);
    json.key("messages").begin_array();
    for (const std::string& message : inputs.messages) json.string(message);
    json.end_array();
    json.end_object();
}

void write_share(JsonWriter& json, std::int64_t part_ns, std::int64_t whole_ns) {
    json.key("share");
    if (whole_ns > 0) {
        json.number(static_cast<double>(part_ns) / static_cast<double>(whole_ns));
    } else {
        json.null();
    }
}

void write_class(JsonWriter& json, std::string_view name, const ClassTime& one, std::int64_t all_ns) {
    json.key(name).begin_object();
    json.key("count").count(one.count);
    json.key("time_ms").number(to_ms(one.time_ns));
    write_share(json, one.time_ns, all_ns);
    json.end_object();
}

void write_time(JsonWriter& json, const GpuTime& time) {
    const std::int64_t all_ns = time.all().time_ns;
    json.key("gpus").count(time.gpus);
    json.key("window_ms").number(to_ms(time.window_ns));
    json.key("busy_ms").number(to_ms(time.busy_ns));
    json.key("idle_ms").number(to_ms(time.idle_ns()));
    json.key("kernel_ms").number(to_ms(all_ns));
    json.key("own_work_ms").number(to_ms(time.own_work_ns()));
    json.key("classes").begin_object();
    for (std::size_t i = 0; i < class_names.size(); ++i) write_class(json, class_names[i], time.classes[i], all_ns);
    json.end_object();
    json.key("of_matmul").begin_object();
    write_class(json, attention_kind, time.attention, all_ns);
    json.end_object();
    json.key("comm").begin_object();
    json.key("union_ms").number(to_ms(time.comm_union_ns));
    json.key("overlap_ms").number(to_ms(time.overlap_ns));
    json.key("exposed_ms").number(to_ms(time.exposed_comm_ns()));
    json.key("overlap").number_or_null(time.overlap());
    json.end_object();
}

const std::string& longest_name(const KernelTotal& total) {
    auto longest = total.full_names.begin();
    for (auto name = longest; name != total.full_names.end(); ++name)
        if (name->second > longest->second) longest = name;
    return longest->first;
}

void write_kernels(JsonWriter& json, const KernelTotals& kernels, std::int64_t all_ns, std::size_t top) {
    json.key("kernels").begin_array();
    for (const auto* kernel : top_kernels(kernels, top)) {
        const auto& [key, total] = *kernel;
        json.begin_object();
        json.key("name").string(key.first);
        json.key("class").string(class_name(key.second));
        json.key("kind").string(total.kind);
        json.key("count").count(total.count);
        json.key("total_ms").number(to_ms(total.total_ns));
        json.key("mean_ms").number(to_ms(total.total_ns) / static_cast<double>(total.count));
        json.key("min_ms").number(to_ms(total.min_ns));
        json.key("max_ms").number(to_ms(total.max_ns));
        write_share(json, total.total_ns, all_ns);
        json.key("full_name").string(longest_name(total));
        json.key("full_names").count(total.full_names.size());
        json.end_object();
    }
    json.end_array();
}

void write_steps(JsonWriter& json, const RankTrace& rank) {
    json.key("steps").begin_array();
    for (const StepTime& step : rank.steps) {
        json.begin_object();
        json.key("step").integer(step.step);
        json.key("duration_ms").number(to_ms(step.duration_ns));
        json.key("busy_ms").number(to_ms(step.busy_ns));
        json.end_object();
    }
    json.end_array();
    std::int64_t busy_ns = 0;
    for (const StepTime& step : rank.steps) add_ns(busy_ns, step.busy_ns);
    json.key("mean_step_busy_ms");
    if (rank.steps.empty()) {
        json.null();
    } else {
        json.number(to_ms(busy_ns) / static_cast<double>(rank.steps.size()));
    }
}

void write_rank(JsonWriter& json, const RankTrace& rank, std::size_t top) {
    constexpr std::string_view sources[] = {"trace", "name", "order"};
    json.begin_object();
    json.key("rank").integer(rank.rank);
    json.key("rank_from").string(sources[static_cast<std::size_t>(rank.rank_source)]);
    json.key("files").begin_array();
    for (const std::string& path : rank.paths) json.string(path);
    json.end_array();
    json.key("devices").begin_array();
    for (const auto& [device, name] : rank.devices) {
        json.begin_object();
        json.key("device").integer(device);
        json.key("name").string_or_null(name);
        json.end_object();
    }
    json.end_array();
    json.key("window_begin_ns").integer(rank.window_begin_ns);
    json.key("window_end_ns").integer(rank.window_end_ns);
    write_time(json, rank.time);
    write_steps(json, rank);
    write_kernels(json, rank.kernels, rank.time.all().time_ns, top);
    json.end_object();
}

void write_comparisons(JsonWriter& json, const KernelReport& report) {
    json.key("comparison").begin_object();
    json.key("per").string(report.per_step ? "step" : "trace");
    json.key("rows").begin_array();
    for (const Comparison& one : report.comparisons) {
        json.begin_object();
        json.key("what").string(one.what);
        json.key("longest_rank").integer(one.longest_rank);
        json.key("longest_ms").number(one.longest_ms);
        json.key("shortest_rank").integer(one.shortest_rank);
        json.key("shortest_ms").number(one.shortest_ms);
        json.key("median_ms").number(one.median_ms);
        json.key("excess").number_or_null(one.excess);
        json.key("deficit_ms").number(one.deficit_ms);
        json.end_object();
    }
    json.end_array();
    json.end_object();
}

}  // namespace

std::string report_json(const KernelReport& report, std::size_t top) {
    JsonWriter json;
    json.begin_object();
    json.key("schema").string("cep.kernels/1");
    json.key("headline").string(report.headline);
    write_inputs(json, report);
    json.key("total").begin_object();
    write_time(json, report.total.time);
    write_kernels(json, report.total.kernels, report.total.time.all().time_ns, top);
    json.end_object();
    json.key("ranks").begin_array();
    for (const RankTrace& rank : report.ranks) write_rank(json, rank, top);
    json.end_array();
    write_comparisons(json, report);
    json.end_object();
    return json.finish();
}

}  // namespace cep::kernels
