// SPDX-License-Identifier: Apache-2.0
#include "show/json_writer.hpp"
#include "summary/summary_text.hpp"
#include "verdict/verdict_text.hpp"

namespace cep::tool {
namespace {

void write_inputs(JsonWriter& json, const SummaryResult& result) {
    const InputCounts& inputs = result.inputs;
    json.key("inputs").begin_object();
    json.key("files").count(inputs.files);
    json.key("bytes").count(inputs.bytes);
    json.key("rows").count(inputs.rows);
    json.key("ranks_seen").count(result.coverage.ranks_seen);
    json.key("ranks_expected").count_or_null(result.coverage.ranks_expected);
    json.key("missing_ranks").integers(result.coverage.missing_ranks);
    json.key("truncated_files").count(inputs.truncated_files);
    json.key("unreadable_files").count(inputs.unreadable_files);
    json.key("skipped_rows").count(inputs.skipped_rows);
    json.key("duplicate_rows").count(result.duplicate_rows);
    json.key("superseded_rows").count(result.superseded_rows);
    json.key("runs").count(result.runs.size());
    json.key("hosts").count(result.hosts);
    json.end_object();
}

void write_runs(JsonWriter& json, const SummaryResult& result) {
    json.key("runs").begin_array();
    for (const RunSummary& run : result.runs) {
        json.begin_object();
        json.key("run_id").string(run.run_id);
        json.key("attempt").integer(run.attempt);
        json.key("ranks").count(run.ranks);
        json.key("first_step").integer_or_null(run.first_step);
        json.key("last_step").integer_or_null(run.last_step);
        json.end_object();
    }
    json.end_array();
}

void write_window(JsonWriter& json, const SummaryResult& result) {
    json.key("window").begin_object();
    json.key("first_step").integer_or_null(result.first_step);
    json.key("last_step").integer_or_null(result.last_step);
    json.key("steps").count(result.steps);
    json.key("stride").integer_or_null(result.stride);
    json.end_object();
}

void write_phase_keys(JsonWriter& json, const PhaseSummary& phase) {
    json.key("name").string(phase.name);
    json.key("kind").string(schema::kind_name(phase.kind));
    json.key("clock").string_or_null(clock_names[static_cast<std::size_t>(phase.clock)]);
    json.key("count").count(phase.count);
    json.key("ranks").count(phase.ranks);
    json.key("mean_ms").number(phase.mean_ms);
    json.key("p50_ms").number(phase.p50_ms);
    json.key("p90_ms").number(phase.p90_ms);
    json.key("p99_ms").number(phase.p99_ms);
    json.key("min_ms").number(phase.min_ms);
    json.key("max_ms").number(phase.max_ms);
    json.key("total_ms").number(phase.total_ms);
    json.key("share").number_or_null(phase.share);
    json.key("slowest_rank").integer(phase.slowest_rank);
    json.key("skew").number_or_null(phase.skew);
}

void write_phases(JsonWriter& json, const SummaryResult& result) {
    json.key("phases").begin_array();
    for (const PhaseSummary& phase : result.phases) {
        json.begin_object();
        write_phase_keys(json, phase);
        json.end_object();
    }
    json.end_array();
}

void write_group_keys(JsonWriter& json, Grouping::By by, const GroupSummary& group) {
    if (by == Grouping::By::rank) json.key("rank").integer(group.first);
    if (by == Grouping::By::step) {
        json.key("first_step").integer(group.first);
        json.key("last_step").integer(group.last);
        return;
    }
    json.key("host").string_or_null(group.host);
}

void write_groups(JsonWriter& json, const SummaryResult& result) {
    json.key("by").string(result.grouping.name());
    json.key("groups").begin_array();
    for (const GroupSummary& group : result.groups) {
        json.begin_object();
        write_group_keys(json, result.grouping.by, group);
        write_phase_keys(json, group.phase);
        json.key("excess_ms").number(group.excess_ms);
        json.key("median_ratio").number_or_null(group.median_ratio);
        json.end_object();
    }
    json.end_array();
}

void write_loss(JsonWriter& json, const Loss& loss) {
    json.key("loss").begin_object();
    json.key("dropped").count(loss.dropped());
    json.key("capture_skipped").count(loss.capture_skipped);
    json.key("errors").count(loss.cuda_errors);
    json.key("abandoned").count(loss.abandoned);
    json.key("dropped_by_cause").begin_object();
    json.key(schema::dropped::ring).count(loss.dropped_ring);
    json.key(schema::dropped::slots).count(loss.dropped_slots);
    json.key(schema::dropped::pool).count(loss.dropped_pool);
    json.key(schema::dropped::file).count(loss.dropped_file);
    json.key(schema::dropped::io).count(loss.dropped_io);
    json.end_object();
    json.key("without_metadata").count(loss.dropped_meta);
    json.end_object();
}

void write_open_spans(JsonWriter& json, const SummaryResult& result) {
    json.key("open_spans").begin_array();
    for (const OpenSpan& open : result.open_spans) {
        json.begin_object();
        json.key("name").string(open.name);
        json.key("rank").integer(open.rank);
        json.key("step").integer(open.step);
        json.key("attempt").integer(open.attempt);
        json.key("elapsed_ms").number(open.elapsed_ms);
        json.end_object();
    }
    json.end_array();
}

void write_across(JsonWriter& json, const std::optional<AcrossRanks>& figure) {
    if (!figure) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("ranks").count(figure->ranks);
    json.key("median").number(figure->median);
    json.key("max").number(figure->max);
    json.key("max_rank").integer(figure->max_rank);
    json.end_object();
}

void write_memory(JsonWriter& json, const SummaryResult& result) {
    json.key("memory");
    if (!result.memory) {
        json.null();
        return;
    }
    json.begin_object();
    json.key("peak_allocated_bytes");
    write_across(json, result.memory->peak_allocated_bytes);
    json.key("peak_reserved_bytes");
    write_across(json, result.memory->peak_reserved_bytes);
    json.key("fragmentation");
    write_across(json, result.memory->fragmentation);
    json.key("alloc_retries").number(result.memory->alloc_retries);
    json.end_object();
}

void write_counters(JsonWriter& json, const SummaryResult& result) {
    json.key("counters").begin_array();
    for (const CounterSummary& counter : result.counters) {
        json.begin_object();
        json.key("name").string(counter.name);
        json.key("max");
        write_across(json, counter.max);
        json.key("last");
        write_across(json, counter.last);
        json.end_object();
    }
    json.end_array();
}

void write_marks(JsonWriter& json, const SummaryResult& result) {
    json.key("marks").begin_array();
    for (const auto& [name, mark] : result.marks) {
        json.begin_object();
        json.key("name").string(name);
        json.key("count").count(mark.count);
        json.key("ranks").count(mark.ranks.size());
        json.key("steps").integers({mark.steps.begin(), mark.steps.end()});
        json.end_object();
    }
    json.end_array();
}

}  // namespace

std::string summary_json(const SummaryResult& result) {
    JsonWriter json;
    json.begin_object();
    json.key("schema").string("cep.summary/1");
    write_inputs(json, result);
    write_window(json, result);
    write_phases(json, result);
    json.key("efficiency");
    write_efficiency(json, result.verdict ? result.verdict->efficiency : Efficiency{});
    write_loss(json, result.loss);
    json.key("verdict");
    if (result.verdict) {
        write_verdict(json, *result.verdict);
    } else {
        json.null();
    }
    write_runs(json, result);
    write_open_spans(json, result);
    write_marks(json, result);
    write_memory(json, result);
    write_counters(json, result);
    write_groups(json, result);
    json.key("approximate").boolean(result.approximate);
    json.end_object();
    return json.finish();
}

}  // namespace cep::tool
