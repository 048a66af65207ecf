// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulator.hpp"

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
    const Random random(job.seed);
    double sum_ms = 0.0;
    std::int64_t begin_ns = 0;
    for (std::size_t i = 0; i < ends_ns.size(); ++i) {
        const std::int64_t step = job.start_step + static_cast<std::int64_t>(i);
        if (intensity(job.faults[fault], fault, random, step) > 0) sum_ms += ms(ends_ns[i] - begin_ns);
        begin_ns = ends_ns[i];
    }
    return sum_ms;
}

void write_fault(JsonWriter& json, const Job& job, const Outcome& outcome, std::size_t index) {
    const Fault& fault = job.faults[index];
    const FaultEffect& effect = outcome.effects[index];
    const std::vector<std::int64_t>& without_ns = outcome.ends_without_fault_ns[index];
    const double cost_ms = ms(outcome.ends_ns.back() - without_ns.back());
    const double with_ms = touched_ms(job, index, outcome.ends_ns);
    const double without_ms = touched_ms(job, index, without_ns);
    json.members("ranks", fault.ranks, "host", fault.host, "stage", fault.stage, "phase", fault.phase);
    json.key("phases").begin_array();
    for (std::size_t i = 0; i < phase_count; ++i)
        if (fault.phases[i]) json.string(phase_names[i]);
    json.end_array();
    json.members("pattern", pattern_names[static_cast<std::size_t>(fault.pattern)], "first_step", fault.first_step,
                 "last_step", fault.last_step, "asked_slowdown", fault.slowdown, "asked_excess_ms", fault.excess_ms,
                 "asked_fraction", fault.fraction, "period_steps", fault.period_steps);
    json.members("steps", effect.steps, "step_fraction", mean(static_cast<double>(effect.steps), job.steps),
                 "recorded_steps", effect.recorded_steps, "slowdown",
                 effect.base_ms > 0 ? 1.0 + effect.excess_ms / effect.base_ms : 1.0, "own_excess_ms",
                 mean(effect.excess_ms, effect.rank_steps));
    json.members("job_excess_ms_total", cost_ms, "job_excess_ms_per_step", mean(cost_ms, effect.steps),
                 "touched_step_slowdown", without_ms > 0 ? with_ms / without_ms : 1.0, "job_slowdown",
                 ms(outcome.ends_ns.back()) / ms(without_ns.back()));
}

void write_faults(JsonWriter& json, const Job& job, const Outcome& outcome) {
    std::size_t index = 0;
    json.objects("faults", job.faults, [&](const Fault&) { write_fault(json, job, outcome, index++); });
}

void write_job(JsonWriter& json, const Job& job, const Outcome& outcome) {
    const double with_ms = ms(outcome.ends_ns.back());
    const double without_ms = ms(outcome.ends_without_faults_ns.back());
    const auto stages = static_cast<double>(job.pp);
    json.members("healthy", job.faults.empty(), "job_ms", with_ms, "job_without_faults_ms", without_ms, "job_slowdown",
                 with_ms / without_ms, "excess_ms_total", with_ms - without_ms, "excess_ms_per_step",
                 mean(with_ms - without_ms, job.steps), "mean_step_ms", mean(with_ms, job.steps),
                 "mean_step_without_faults_ms", mean(without_ms, job.steps), "mfu",
                 job.mfu * job.step_ms * static_cast<double>(job.steps) / with_ms, "bubble_fraction",
                 (stages - 1) / (static_cast<double>(job.micro_batches) + stages - 1));
}

void write_events(JsonWriter& json, const Job& job) {
    json.objects("events", job.events, [&](const Event& event) {
        const bool slows = event.type == EventType::slowdown_all;
        std::vector<std::int64_t> steps;
        for (std::int64_t step = *event.step; !slows && step <= *event.last_step; ++step)
            if (happens(event, step, job.start_step)) steps.push_back(step);
        json.members("type", event_names[static_cast<std::size_t>(event.type)], "steps", steps, "first_step",
                     event.step, "last_step", event.last_step, "duration_ms", slows ? std::nullopt : event.duration_ms,
                     "slowdown", event.slowdown, "phase", event.phase);
    });
}

void write_transfers(JsonWriter& json, const Job& job) {
    struct Transfer {
        std::string_view op;
        std::string_view dimension;
        std::int64_t group_size;
        TransferModel model;
        std::vector<std::int64_t> sizes_bytes;
    };
    const Links links(job);
    const std::vector<std::int64_t> activations{bytes_of_mb(job.activation_mb)};
    std::vector<Transfer> transfers;
    const auto add_all_reduce = [&](std::string_view dimension, std::int64_t size,
                                    const std::vector<std::int64_t>& sizes_bytes) {
        if (size > 1)
            transfers.push_back(
                {"all_reduce", dimension, size, links.all_reduce(static_cast<std::size_t>(size)), sizes_bytes});
    };
    add_all_reduce("dp", job.dp, bucket_sizes_bytes(job));
    add_all_reduce("tp", job.tp, activations);
    if (job.pp > 1) transfers.push_back({"send", "pp", 2, links.send(), activations});
    json.objects("transfers", transfers, [&json](const Transfer& transfer) {
        json.members("op", transfer.op, "dimension", transfer.dimension, "group_size", transfer.group_size, "alpha_us",
                     transfer.model.latency_us, "beta_gb_per_s", transfer.model.gb_per_s, "bytes",
                     transfer.sizes_bytes);
    });
}

void write_clocks(JsonWriter& json, const Outcome& outcome) {
    json.members("start_unix_ns", job_start_unix_ns);
    std::size_t host = 0;
    json.objects("clocks", outcome.clocks, [&](const HostClock& clock) {
        json.members("host", "node" + std::to_string(host++), "offset_ns", clock.offset_ns, "drift_ppm",
                     clock.drift_ppm);
    });
}

void write_files(JsonWriter& json, const Job& job, const Outcome& outcome) {
    const RowCounts& rows = outcome.rows;
    json.members("recorded_steps", outcome.recorded_steps);
    json.key("rows").begin_object();
    json.members("spans", rows.spans, "counters", rows.counters, "marks", rows.marks, "runs", outcome.files, "stats",
                 outcome.files, "total", rows.written() + 2 * outcome.files);
    json.end_object();
    json.members("dropped_spans", rows.dropped_spans, "files", outcome.files, "missing_ranks", job.missing_ranks);
}

}  // namespace

std::string truth_json(const Job& job, const Outcome& outcome) {
    JsonWriter json;
    json.begin_object();
    json.members("schema", "cep.simulation/2", "seed", job.seed);
    write_job(json, job, outcome);
    write_faults(json, job, outcome);
    write_events(json, job);
    write_transfers(json, job);
    write_clocks(json, outcome);
    write_files(json, job, outcome);
    json.key("options").begin_object();
    write_settings(json, job);
    json.end_object();
    json.end_object();
    return json.finish();
}

}  // namespace cep::simulation
