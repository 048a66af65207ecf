// SPDX-License-Identifier: Apache-2.0
#include "metrics/job_metrics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schema.hpp"

namespace cep::tool {
namespace {

struct Label {
    std::string_view name;
    std::string_view value;  // may be any text
};
using Labels = std::initializer_list<Label>;

/// Metrics in the text format of Prometheus.
class Exposition {
  public:
    /// Begins a metric; its samples follow. `help` is one sentence without a full stop.
    void begin(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        text_ += fmt::format("# HELP {0} {1}.\n# TYPE {0} {2}\n", name, help, type);
    }

    /// A sample of the metric, or of the metric with an ending such as "_sum".
    void sample(Labels labels, double value, std::string_view ending = "") {
        text_ += name_;
        text_ += ending;
        char separator = '{';
        for (const Label& label : labels) {
            text_ += fmt::format("{}{}=\"{}\"", separator, label.name, escaped(label.value));
            separator = ',';
        }
        if (labels.size() > 0) text_ += '}';
        text_ += ' ' + number_text(value) + '\n';
    }

    /// A metric with one sample; nothing where the value is not known.
    void gauge(std::string_view name, std::string_view help, const std::optional<double>& value) {
        single(name, "gauge", help, value);
    }
    void counter(std::string_view name, std::string_view help, const std::optional<double>& value) {
        single(name, "counter", help, value);
    }

    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    static std::string escaped(std::string_view value) {
        std::string text;
        for (const char c : value) {
            if (c == '"' || c == '\\' || c == '\n') text += '\\';
            text += c == '\n' ? 'n' : c;
        }
        return text;
    }

    static std::string number_text(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
        return fmt::format("{}", value);
    }

    void single(std::string_view name, std::string_view type, std::string_view help,
                const std::optional<double>& value) {
        if (!value) return;
        begin(name, type, help);
        sample({}, *value);
    }

    std::string name_;
    std::string text_;
};

constexpr double seconds_per_ms = 1e-3;

std::optional<double> seconds(const std::optional<double>& ms) {
    return ms ? std::optional(*ms * seconds_per_ms) : std::nullopt;
}

void add_inputs(Exposition& out, const Job& job) {
    const InputCounts& inputs = job.inputs;
    out.gauge("cep_input_files", "Rank files that were read", inputs.files);
    out.gauge("cep_input_bytes", "Their size", inputs.bytes);
    out.gauge("cep_input_rows", "Rows in them", inputs.rows);
    out.gauge("cep_input_skipped_rows", "Rows that could not be read", inputs.skipped_rows);
    out.gauge("cep_input_damaged_files", "Files that were cut off or could not be read",
              inputs.truncated_files + inputs.unreadable_files);
    out.gauge("cep_runs_left_out", "Other runs of which the inputs have rows", inputs.runs_left_out);
    out.gauge("cep_ranks", "Ranks that have rows", job.coverage.ranks_seen);
    out.gauge("cep_ranks_missing", "Ranks of the job that have no rows", job.coverage.missing_ranks.size());
    out.gauge("cep_hosts", "Hosts of the job", job.hosts);
    out.gauge("cep_steps_recorded", "Steps that were recorded", job.steps.count);
    out.gauge("cep_last_step", "The last step that was recorded", job.steps.last);
    out.gauge("cep_open_spans", "Spans that began and never ended", job.open_spans.size());
    if (job.runs.empty()) return;
    const JobRun& run = job.runs.back();
    out.begin("cep_run_info", "gauge", "1; the labels name the last run of the job");
    out.sample({{"run_id", run.run_id}}, 1);
    out.gauge("cep_run_attempt", "The number of the start of the last run", run.attempt);
}

void add_durations(Exposition& out, Label phase, Label kind, const PhaseSummary& durations) {
    for (const auto& [q, member] : phase_quantiles)
        out.sample({phase, kind, {"quantile", fmt::format("{}", q)}}, durations.*member * seconds_per_ms);
    out.sample({phase, kind}, durations.total_ms * seconds_per_ms, "_sum");
    out.sample({phase, kind}, static_cast<double>(durations.count), "_count");
}

void add_steps(Exposition& out, const Job& job, const Summary& summary, const Verdict& verdict) {
    out.gauge("cep_step_typical_seconds", "Time of a recorded step, median of the steps", seconds(verdict.step_ms));
    out.gauge("cep_step_mean_seconds", "Time of a step of steady training, mean of all steps",
              seconds(verdict.mean_step_ms));
    const std::vector<SeriesOfRank> series = all_series(job.ranks);
    const StepPhase step = find_step_phase(series);
    if (!step.found) return;
    for (const PhaseSummary& phase : summary.phases) {
        if (phase.name != step.name || phase.kind != schema::Kind::step) continue;
        out.gauge("cep_step_p50_seconds", "Time that half of the steps of all ranks exceed",
                  phase.p50_ms * seconds_per_ms);
        out.gauge("cep_step_p99_seconds", "Time that one step of all ranks in a hundred exceeds",
                  phase.p99_ms * seconds_per_ms);
        out.gauge("cep_step_max_seconds", "Time of the longest step of all ranks", phase.max_ms * seconds_per_ms);
    }
}

std::span<const PhaseSummary* const> most_time(std::vector<const PhaseSummary*>& phases, std::size_t most) {
    std::stable_sort(phases.begin(), phases.end(),
                     [](const auto* a, const auto* b) { return a->total_ms > b->total_ms; });
    return {phases.data(), std::min(phases.size(), most)};
}

void add_phases(Exposition& out, const Summary& summary, std::size_t max_phases) {
    std::vector<const PhaseSummary*> all;
    for (const PhaseSummary& phase : summary.phases) all.push_back(&phase);
    const std::span<const PhaseSummary* const> shown = most_time(all, max_phases);
    out.gauge("cep_phases_left_out", "Phases with less time, of which there are no metrics", all.size() - shown.size());
    if (shown.empty()) return;
    const auto labels = [](const PhaseSummary& phase) {
        return std::pair(Label{"phase", phase.name}, Label{"kind", schema::kind_name(phase.kind)});
    };
    out.begin("cep_phase_seconds", "summary", "Durations of the spans of a phase on all ranks");
    for (const PhaseSummary* phase : shown) {
        const auto [name, kind] = labels(*phase);
        add_durations(out, name, kind, *phase);
    }
    out.begin("cep_phase_share_ratio", "gauge", "Share of the time of steps in which nothing hides the phase");
    for (const PhaseSummary* phase : shown) {
        const auto [name, kind] = labels(*phase);
        if (phase->share) out.sample({name, kind}, *phase->share);
    }
    out.begin("cep_phase_skew_ratio", "gauge", "Mean own work of the slowest rank over the typical mean");
    for (const PhaseSummary* phase : shown) {
        const auto [name, kind] = labels(*phase);
        if (phase->skew && phase->ranks > 1) out.sample({name, kind}, *phase->skew);
    }
}

template <typename Value>  // a number, or one that may be missing
void add_straggler_metric(Exposition& out, const Verdict& verdict, std::string_view name, std::string_view help,
                          Value Finding::*member, double factor = 1) {
    const Findings stragglers = verdict.stragglers();
    if (stragglers.empty()) return;
    out.begin(name, "gauge", help);
    for (std::size_t i = 0; i < std::min(stragglers.size(), max_stragglers); ++i) {
        const Finding& straggler = *stragglers[i];
        const std::optional<double> value = straggler.*member;
        if (!value) continue;
        out.sample({{"rank", std::to_string(straggler.typical_rank)},
                    {"host", straggler.typical_host},
                    {"phase", straggler.phase},
                    {"pattern", pattern_names[static_cast<std::size_t>(straggler.pattern)]}},
                   *value * factor);
    }
}

void add_stragglers(Exposition& out, const Verdict& verdict) {
    out.gauge("cep_verdict_abstained", "1 where the rows cannot show whether there are stragglers, else 0",
              verdict.abstained);
    out.gauge("cep_stragglers", "Ranks that slow the job", verdict.stragglers().size());
    out.gauge("cep_job_slowdown_ratio", "Time of the steps over what it would be without the stragglers",
              verdict.job_slowdown);
    add_straggler_metric(out, verdict, "cep_straggler_slowdown_ratio",
                         "Time of the phase in slow steps over that on a usual rank", &Finding::slowdown);
    add_straggler_metric(out, verdict, "cep_straggler_excess_seconds", "Additional time of a slow step, median",
                         &Finding::excess_ms, seconds_per_ms);
    add_straggler_metric(out, verdict, "cep_straggler_step_ratio", "Share of the steps in which the rank is slow",
                         &Finding::step_fraction);
    add_straggler_metric(out, verdict, "cep_straggler_cost_ratio",
                         "Share of the time of all steps that the job loses by the rank", &Finding::cost_share);
}

void add_bound(Exposition& out, const Verdict& verdict) {
    constexpr std::array<Bound, 6> bounds = {Bound::unknown, Bound::compute, Bound::comm,
                                             Bound::data,    Bound::host,    Bound::mixed};
    out.begin("cep_bound", "gauge", "1 for what most of a step goes to, else 0");
    for (const Bound bound : bounds) out.sample({{"bound", bound_name(bound)}}, bound == verdict.bound ? 1 : 0);
    if (!verdict.shares) return;
    const StepShares& shares = *verdict.shares;
    const double wait = std::min(shares.wait, shares.comm);
    out.begin("cep_step_part_ratio", "gauge", "Share of the time of all steps; communication is what no compute hides");
    out.sample({{"part", "compute"}}, shares.compute);
    out.sample({{"part", "comm_wait"}}, wait);
    out.sample({{"part", "comm_transfer"}}, shares.comm - wait);
    out.sample({{"part", "data"}}, shares.data);
    out.sample({{"part", "host"}}, shares.host);
    out.sample({{"part", "other"}}, shares.rest);
}

void add_efficiency(Exposition& out, const Efficiency& efficiency) {
    out.gauge("cep_comm_seconds", "Communication of a recorded step, mean", seconds(efficiency.comm_ms));
    out.gauge("cep_exposed_comm_seconds", "That of it which no compute hides", seconds(efficiency.exposed_comm_ms));
    out.gauge("cep_overlap_ratio", "Share of communication that compute hides", efficiency.overlap_efficiency);
    out.gauge("cep_mfu_ratio", "Model FLOPs utilization", efficiency.mfu);
    out.gauge("cep_hfu_ratio", "Hardware FLOPs utilization, with recomputation", efficiency.hfu);
    out.gauge("cep_tokens_per_second", "Tokens of the job per second", efficiency.tokens_per_s);
    out.gauge("cep_pipeline_bubble_ratio", "Idle share of a pipeline stage", efficiency.bubble_fraction);
}

void add_memory(Exposition& out, const Summary& summary) {
    if (!summary.memory) return;
    const auto add = [&](std::string_view name, std::string_view help, const std::optional<AcrossRanks>& figure) {
        if (!figure) return;
        out.begin(name, "gauge", help);
        out.sample({{"rank_statistic", "median"}}, figure->median);
        out.sample({{"rank_statistic", "max"}}, figure->max);
    };
    add("cep_memory_peak_allocated_bytes", "Most memory of a device that was allocated",
        summary.memory->peak_allocated_bytes);
    add("cep_memory_peak_reserved_bytes", "Most memory of a device that was reserved",
        summary.memory->peak_reserved_bytes);
}

void add_profiler(Exposition& out, const Loss& loss) {
    out.counter("cep_profiler_recorded_total", "Spans, counters and marks that the profiler accepted", loss.recorded);
    out.counter("cep_profiler_written_total", "Of these, those whose rows were written", loss.written);
    out.begin("cep_profiler_dropped_total", "counter", "Of these, those that were lost, by cause");
    for (const auto& [cause, count] : loss.dropped_by_cause())
        out.sample({{"cause", cause}}, static_cast<double>(count));
    out.counter("cep_profiler_without_metadata_total", "Of these, those that lost their metadata", loss.dropped_meta);
    out.counter("cep_profiler_capture_skipped_total", "Spans that were not timed in the capture of a graph",
                loss.capture_skipped);
    out.counter("cep_profiler_abandoned_total", "Spans that had not finished when the file was closed", loss.abandoned);
    out.counter("cep_profiler_cuda_errors_total", "CUDA calls of the profiler that failed", loss.cuda_errors);
    out.counter("cep_profiler_cpu_seconds_total", "Processor time of the profiler's own threads",
                loss.self_ms * seconds_per_ms);
}

}  // namespace

std::string job_metrics(const Job& job, const Summary& summary, const Verdict& verdict, std::size_t max_phases) {
    Exposition out;
    add_inputs(out, job);
    add_steps(out, job, summary, verdict);
    add_phases(out, summary, max_phases);
    add_stragglers(out, verdict);
    add_bound(out, verdict);
    add_efficiency(out, verdict.efficiency);
    add_memory(out, summary);
    add_profiler(out, job.loss);
    return out.text();
}

}  // namespace cep::tool
