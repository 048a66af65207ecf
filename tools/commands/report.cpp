// SPDX-License-Identifier: Apache-2.0
//
// cep report
#include <fmt/core.h>
#include <unistd.h>
#include <algorithm>
#include <optional>
#include <string>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "compare/comparison.hpp"
#include "model/load.hpp"
#include "report/report.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::cli {
namespace {

using namespace tool;

bool reads_standard_input(const InputSet& set) {
    return std::any_of(set.files.begin(), set.files.end(),
                       [](const InputFile& file) { return file.is_standard_input(); });
}

/// Whether own work and waiting of ranks are looked at. Of only some phases, a step cannot be taken apart.
bool can_be_taken_apart(const Job& job) {
    return !job.filter.has_phases() && !starts_too_often(job.ranks);
}

std::vector<std::int64_t> parse_numbers(std::string_view option, std::string_view text) {
    std::vector<std::int64_t> numbers;
    if (text.empty()) return numbers;
    for (const std::string_view word : split(text, ',')) {
        const auto number = parse_number<std::int64_t>(word);
        if (!number) throw UsageError(fmt::format("{}: '{}' is not a list of numbers such as 0,3,7", option, text));
        numbers.push_back(*number);
    }
    return numbers;
}

void say_result(const report::Report& report, const std::string& out, std::uint64_t max_bytes) {
    say("cep report: {}: {} (at most {})\n", out.empty() || out == "-" ? "standard output" : "wrote " + out,
        format_bytes(static_cast<double>(report.html.size())), format_bytes(static_cast<double>(max_bytes)));
    for (const std::string& sentence : report.left_out) say("cep report: {}\n", sentence);
}

struct ReportCommand {
    InputOptions input;
    FilterOptions filter;
    RunOptions run_options;
    RunOptions run_options_a;
    JobOptions job_options;
    std::string out;
    std::string compared;
    std::string files_from_compared;
    std::string timeline_ranks;
    std::string timeline_steps;
    std::uint64_t max_bytes = report::default_max_bytes;
    std::optional<double> peak_flops;

    [[nodiscard]] bool compares() const { return !compared.empty() || !files_from_compared.empty(); }

    [[nodiscard]] report::TimelineChoice timeline() const {
        return {parse_numbers("--timeline-ranks", timeline_ranks), parse_numbers("--timeline-steps", timeline_steps)};
    }

    [[nodiscard]] compare::JobFacts read_compared() const {
        const InputSet set =
            find_inputs_beside(out, compared.empty() ? std::vector<std::string>{} : std::vector<std::string>{compared},
                               files_from_compared);
        LoadOptions options = job_options.load_options(filter, input, run_options_a);
        options.reading.range = {0, 0.5};
        const Job before = load(set, options);
        report_inputs("report: A", before.inputs, before.coverage, "--run-a");
        return compare::facts_of_job("report", "A", compared.empty() ? files_from_compared : compared, before,
                                     judge(before, {{}, input.reading().thread_count(), true}).verdict);
    }

    [[nodiscard]] Status status_of(const Job& job, const std::optional<compare::JobFacts>& a) const {
        const Status status = report_status("report", job.inputs, job.coverage, input.strict);
        if (status == Status::nothing_readable || !a) return status;
        if (a->steps.step.ms.empty() && a->steps.phases.empty()) {
            say("cep report: no {} in A\n", a->inputs.rows == 0 ? "rows" : "spans");
            return Status::nothing_readable;
        }
        return std::max(status, cli::status_of(a->inputs, a->coverage, input.strict));
    }

    [[nodiscard]] std::optional<compare::Comparison> compare_with(std::optional<compare::JobFacts> a, const Job& job,
                                                                  const Verdict& verdict) const {
        if (!a) return std::nullopt;
        const std::string name = input.inputs.empty() ? input.files_from : input.inputs.front();
        return compare::compare_jobs(std::move(*a), compare::facts_of_job("report", "B", name, job, verdict), {});
    }

    Status run() const {
        const report::TimelineChoice chosen = timeline();
        LoadOptions options = job_options.load_options(filter, input, run_options);
        options.keeps_messages = true;
        if (compares()) options.reading.range = {0.5, 1};
        const InputSet set = input.find(out);
        if ((out.empty() || out == "-") && is_terminal(STDOUT_FILENO))
            throw UsageError("--output: a page is not for a terminal; name a file with -o");
        if (compares() && compared == "-" && reads_standard_input(set))
            throw UsageError("A and INPUT cannot both be standard input");
        std::optional<compare::JobFacts> a;
        if (compares()) a = read_compared();
        const Job job = load(set, options);
        const Status status = status_of(job, a);
        if (status == Status::nothing_readable) return status;
        const std::size_t threads = input.reading().thread_count();
        Judgement judgement = judge(job, {peak_flops, threads});
        const Verdict& verdict = judgement.verdict;
        JobTable& table = judgement.table;
        const Summary summary = summarize(job, Grouping{}, threads, &verdict);
        const std::optional<compare::Comparison> comparison = compare_with(std::move(a), job, verdict);
        const bool is_taken_apart = can_be_taken_apart(job);
        // The page has room for more steps than a verdict needs.
        if (is_taken_apart && table.steps.size() < table.all_steps)
            table = find_job_time(job, {peak_flops, threads, report::most_table_cells}).table;
        std::optional<comm::CommReport> comm;
        if (any_phase(job.ranks, [](const PhaseSeries& phase) { return phase.kind == schema::Kind::comm; }))
            comm = comm::make_report(job, {});
        const report::Report report = report::make_report({.job = job,
                                                           .summary = summary,
                                                           .verdict = verdict,
                                                           .table = is_taken_apart ? &table : nullptr,
                                                           .comm = comm ? &*comm : nullptr,
                                                           .comparison = comparison ? &*comparison : nullptr,
                                                           .timeline = chosen,
                                                           .max_bytes = static_cast<std::size_t>(max_bytes)});
        if (summary.phases.empty()) say_no_spans("report");
        write_output(out, report.html);
        say_result(report, out, max_bytes);
        return status;
    }

    void add_to(Arguments& command) {
        input.add_to(command);
        command.add(&out, {"-o,--output", "Write to F (default: standard output)", "F"});
        command.add(&compared,
                    {"--compare",
                     "Show what changed from A, the job before, to INPUT: a rank file, a directory or a quoted "
                     "glob",
                     "A"});
        command.add(&files_from_compared, {"--files-from-a", "Read more inputs of A from FILE, one a line", "FILE"});
        command.add(&max_bytes,
                    {"--max-bytes",
                     fmt::format("The page has at most N bytes (default {}); what does not fit is binned or left out",
                                 report::default_max_bytes),
                     "N"});
        command.add(&timeline_ranks, {"--timeline-ranks",
                                      "The timeline shows these ranks, such as 0,5 (default: by the verdict)", "LIST"});
        command.add(
            &timeline_steps,
            {"--timeline-steps", "The timeline shows these steps, such as 100,110 (default: by the verdict)", "LIST"});
        run_options.add_to(command);
        run_options_a.add_to(command, "--run-a");
        filter.add_to(command);
        add_peak_flops(command, peak_flops);
        job_options.add_to(command, "Durations that may be kept; of more, the page shows less");
        command.set_examples(
            "  cep report -o report.html output/cuda_event_profiler\n"
            "  cep report -o report.html --compare before/ after/\n"
            "  cep report -o report.html --timeline-ranks 0,5 --timeline-steps 100 output");
    }
};

}  // namespace

const CommandFacts report_command{"One self-contained page: the verdict, pictures and tables",
                                  add_options<ReportCommand>};

}  // namespace cep::cli
