// SPDX-License-Identifier: Apache-2.0
#include "simulate/truth.hpp"

#include <filesystem>

#include "show/json_writer.hpp"
#include "simulate/links.hpp"
#include "simulate/settings.hpp"
#include "simulate/timeline.hpp"

namespace cep::simulation {
namespace {

using tool::JsonWriter;

double ms(std::int64_t ns) {
    return static_cast<double>(ns) / ns_per_ms;
}

double mean(double sum, std::int64_t count) {
    return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

/// The total time of the steps that the fault affects.
double touched_ms(const Job& job, std::size_t fault, const std::vector<std::int64_t>& ends_ns) {
    const Random random(static_cast<std::uint64_t>(job.seed));
    double sum_ms = 0.0;
    std::int64_t begin_ns = 0;
    for (std::size_t i = 0; i < ends_ns.size(); ++i) {
        const std::int64_t step = job.start_step + static_cast<std::int64_t>(i);
        if (intensity(job.faults[fault], fault, random, step) > 0) sum_ms += ms(ends_ns[i] - begin_ns);
        begin_ns = ends_ns[i];
    }
    return sum_ms;
}

void write_fault_options(JsonWriter& json, const Fault& fault) {
    json.key("ranks").integers(fault.ranks);
    json.key("host").integer_or_null(fault.host);
    json.key("stage").integer_or_null(fault.stage);
    json.key("phase").string(fault.phase);
    json.key("phases").begin_array();
    for (std::size_t i = 0; i < phase_count; ++i)
        if (fault.phases[i]) json.string(phase_names[i]);
    json.end_array();
    json.key("pattern").string(pattern_names[static_cast<std::size_t>(fault.pattern)]);
    json.key("first_step").integer_or_null(fault.first_step);
    json.key("last_step").integer_or_null(fault.last_step);
    json.key("asked_slowdown").number(fault.slowdown);
    json.key("asked_excess_ms").number(fault.excess_ms);
    json.key("asked_fraction").number_or_null(fault.fraction);
    json.key("period_steps").integer(fault.period_steps);
}

void write_fault(JsonWriter& json, const Job& job, const Outcome& outcome, std::size_t index) {
    const FaultEffect& effect = outcome.effects[index];
    const std::vector<std::int64_t>& without_ns = outcome.ends_without_fault_ns[index];
    const double cost_ms = ms(outcome.ends_ns.back() - without_ns.back());
    const double with_ms = touched_ms(job, index, outcome.ends_ns);
    const double without_ms = touched_ms(job, index, without_ns);
    json.begin_object();
    write_fault_options(json, job.faults[index]);
    json.key("steps").integer(effect.steps);
    json.key("step_fraction").number(mean(static_cast<double>(effect.steps), job.steps));
    json.key("recorded_steps").integers(effect.recorded_steps);
    json.key("slowdown").number(effect.base_ms > 0 ? 1.0 + effect.excess_ms / effect.base_ms : 1.0);
    json.key("own_excess_ms").number(mean(effect.excess_ms, effect.rank_steps));
    json.key("job_excess_ms_total").number(cost_ms);
    json.key("job_excess_ms_per_step").number(mean(cost_ms, effect.steps));
    json.key("touched_step_slowdown").number(without_ms > 0 ? with_ms / without_ms : 1.0);
    json.key("job_slowdown").number(ms(outcome.ends_ns.back()) / ms(without_ns.back()));
    json.end_object();
}

void write_job(JsonWriter& json, const Job& job, const Outcome& outcome) {
    const double with_ms = ms(outcome.ends_ns.back());
    const double without_ms = ms(outcome.ends_without_faults_ns.back());
    json.key("healthy").boolean(job.faults.empty());
    json.key("job_ms").number(with_ms);
    json.key("job_without_faults_ms").number(without_ms);
    json.key("job_slowdown").number(with_ms / without_ms);
    json.key("excess_ms_total").number(with_ms - without_ms);
    json.key("excess_ms_per_step").number(mean(with_ms - without_ms, job.steps));
    json.key("mean_step_ms").number(mean(with_ms, job.steps));
    json.key("mean_step_without_faults_ms").number(mean(without_ms, job.steps));
    json.key("mfu").number(job.mfu * job.step_ms * static_cast<double>(job.steps) / with_ms);
    const auto stages = static_cast<double>(job.pp);
    json.key("bubble_fraction").number((stages - 1) / (static_cast<double>(job.micro_batches) + stages - 1));
}

void write_events(JsonWriter& json, const Job& job) {
    json.key("events").begin_array();
    for (const Event& event : job.events) {
        const bool slows = event.type == EventType::slowdown_all;
        json.begin_object();
        json.key("type").string(event_names[static_cast<std::size_t>(event.type)]);
        std::vector<std::int64_t> steps;
        for (std::int64_t step = *event.step; !slows && step <= *event.last_step; ++step)
            if (happens(event, step, job.start_step)) steps.push_back(step);
        json.key("steps").integers(steps);
        json.key("first_step").integer_or_null(event.step);
        json.key("last_step").integer_or_null(event.last_step);
        json.key("duration_ms").number_or_null(slows ? std::nullopt : event.duration_ms);
        json.key("slowdown").number(event.slowdown);
        json.key("phase").string(event.phase);
        json.end_object();
    }
    json.end_array();
}

void write_transfer(JsonWriter& json, std::string_view op, std::string_view dimension, std::int64_t group_size,
                    const TransferModel& model, const std::vector<std::int64_t>& sizes_bytes) {
    json.begin_object();
    json.key("op").string(op);
    json.key("dimension").string(dimension);
    json.key("group_size").integer(group_size);
    json.key("alpha_us").number(model.latency_us);
    json.key("beta_gb_per_s").number(model.gb_per_s);
    json.key("bytes").integers(sizes_bytes);
    json.end_object();
}

void write_transfers(JsonWriter& json, const Job& job) {
    const Links links(job);
    const std::vector<std::int64_t> activations{bytes_of_mb(job.activation_mb)};
    json.key("transfers").begin_array();
    if (job.dp > 1)
        write_transfer(json, "all_reduce", "dp", job.dp, links.all_reduce(static_cast<std::size_t>(job.dp)),
                       bucket_sizes_bytes(job));
    if (job.tp > 1)
        write_transfer(json, "all_reduce", "tp", job.tp, links.all_reduce(static_cast<std::size_t>(job.tp)),
                       activations);
    if (job.pp > 1) write_transfer(json, "send", "pp", 2, links.send(), activations);
    json.end_array();
}

void write_clocks(JsonWriter& json, const Outcome& outcome) {
    json.key("start_unix_ns").integer(job_start_unix_ns);
    json.key("clocks").begin_array();
    for (std::size_t host = 0; host < outcome.clocks.size(); ++host) {
        json.begin_object();
        json.key("host").string("node" + std::to_string(host));
        json.key("offset_ns").integer(outcome.clocks[host].offset_ns);
        json.key("drift_ppm").number(outcome.clocks[host].drift_ppm);
        json.end_object();
    }
    json.end_array();
}

void write_rows(JsonWriter& json, const Outcome& outcome) {
    json.key("recorded_steps").integer(outcome.recorded_steps);
    json.key("rows").begin_object();
    json.key("spans").count(outcome.rows.spans);
    json.key("counters").count(outcome.rows.counters);
    json.key("marks").count(outcome.rows.marks);
    json.key("runs").count(outcome.files);
    json.key("stats").count(outcome.files);
    json.key("total").count(outcome.rows.written() + 2 * outcome.files);
    json.end_object();
    json.key("dropped_spans").count(outcome.rows.dropped_spans);
}

void write_files(JsonWriter& json, const Job& job, const Outcome& outcome) {
    json.key("files").count(outcome.files);
    json.key("missing_ranks").integers(job.missing_ranks);
    json.key("truncated_files").begin_array();
    for (const CutFile& cut : outcome.cut_files) {
        json.begin_object();
        json.key("rank").count(cut.rank);
        json.key("file").string(std::filesystem::path(cut.path).filename().native());
        json.key("kept_bytes").count(cut.kept_bytes);
        json.key("lost_rows").count(cut.lost_rows);
        json.end_object();
    }
    json.end_array();
}

}  // namespace

std::string truth_json(const Job& job, const Outcome& outcome) {
    JsonWriter json;
    json.begin_object();
    json.key("schema").string("cep.simulation/1");
    json.key("seed").integer(job.seed);
    write_job(json, job, outcome);
    json.key("faults").begin_array();
    for (std::size_t i = 0; i < job.faults.size(); ++i) write_fault(json, job, outcome, i);
    json.end_array();
    write_events(json, job);
    write_transfers(json, job);
    write_clocks(json, outcome);
    write_rows(json, outcome);
    write_files(json, job, outcome);
    json.key("options").begin_object();
    write_settings(json, job);
    json.end_object();
    json.end_object();
    return json.finish();
}

}  // namespace cep::simulation
