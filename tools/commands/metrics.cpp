// SPDX-License-Identifier: Apache-2.0
//
// cep metrics
#include <optional>
#include <string>

#include "base/output.hpp"
#include "base/units.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "metrics/job_metrics.hpp"
#include "model/load.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::cli {
namespace {

using namespace tool;

struct MetricsCommand {
    InputOptions input;
    FilterOptions filter;
    RunOptions run_options;
    JobOptions job_options;
    std::string out;
    std::uint64_t max_phases = default_max_phases;
    std::optional<double> peak_flops;

    Status run() const {
        const LoadOptions options = job_options.load_options(filter, input, run_options);
        const InputSet set = input.find(out);
        const Job job = load(set, options);
        const Status status = report_status("metrics", job.inputs, job.coverage, input.strict);
        if (status == Status::nothing_readable) return status;
        const std::size_t threads = input.reading().thread_count();
        const Verdict verdict = judge(job, {peak_flops, threads}).verdict;
        const Summary summary = summarize(job, Grouping{}, threads, &verdict);
        if (summary.phases.empty()) say_no_spans("metrics");
        write_output(out, job_metrics(job, summary, verdict, max_phases));
        say_written("metrics", out, "figures of " + format_plural(job.coverage.ranks_seen, "rank"));
        return status;
    }

    void add_to(Arguments& metrics) {
        input.add_to(metrics);
        metrics.add(&out, {"-o,--output", "Write to F (default: standard output)", "F"});
        run_options.add_to(metrics);
        filter.add_to(metrics);
        metrics.add(&max_phases, {"--max-phases",
                                  "Metrics of the N phases that took the most time (default " +
                                      std::to_string(default_max_phases) + ")",
                                  "N"});
        add_peak_flops(metrics, peak_flops);
        job_options.add_to(metrics, "Durations kept; beyond it, percentiles and the verdict are of some of the steps");
        metrics.set_examples(
            "  cep metrics -o /var/lib/node_exporter/textfile_collector/cep.prom output\n"
            "  cep metrics --steps 1000: output | grep cep_step");
    }
};

}  // namespace

const CommandFacts metrics_command{"Figures of a job for the textfile collector of Prometheus",
                                   add_options<MetricsCommand>};

}  // namespace cep::cli
