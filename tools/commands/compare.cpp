// SPDX-License-Identifier: Apache-2.0
//
// cep compare
#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "base/say.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "compare/comparison.hpp"
#include "compare/scaling.hpp"
#include "ledger/job_table.hpp"
#include "model/load.hpp"

namespace cep::cli {
namespace {

using namespace tool;

/// "2%" or "2": a percentage.
double parse_threshold(std::string_view text) {
    const std::string_view digits = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
    const auto value = parse_number<double>(digits);
    if (!value || !(*value >= 0 && *value < 1e6))
        throw UsageError("--threshold: '" + std::string(text) + "' is not a percentage such as 2%");
    return *value / 100;
}

struct CompareCommand {
    InputOptions input;
    FilterOptions filter;
    OutputOptions output;
    std::string path_a;
    std::string path_b;
    std::string files_from_a;
    std::string files_from_b;
    std::string threshold = "0%";
    std::vector<std::string> fail_on;
    RunOptions run_a;
    RunOptions run_b;
    JobOptions job_options;
    std::uint64_t block_steps = 0;
    bool scaling = false;
    std::vector<std::string> more;

    [[nodiscard]] bool fails_on(std::string_view what) const {
        return std::find(fail_on.begin(), fail_on.end(), what) != fail_on.end();
    }

    void check() const {
        output.check();
        if (!scaling && !more.empty()) throw UsageError(fmt::format("unexpected argument '{}'", more.front()));
        if (path_a == "-" && path_b == "-") throw UsageError("A and B cannot both be standard input");
        if (path_a.empty() && files_from_a.empty()) throw UsageError("no A: name a file or a directory");
        if (scaling && path_b.empty()) throw UsageError("--scaling: name two jobs or more");
        if (path_b.empty() && files_from_b.empty()) throw UsageError("no B: name a file or a directory");
    }

    /// Compares jobs of different sizes.
    Status run_scaling() const {
        std::vector<compare::ScaledJob> jobs;
        Status status = Status::done;
        std::vector<std::string> paths = {path_a, path_b};
        paths.insert(paths.end(), more.begin(), more.end());
        for (const std::string& path : paths) {
            const InputSet set = find_inputs_beside(output.path, {path}, "");
            LoadOptions options = job_options.load_options(filter, input, {});
            const auto all = static_cast<double>(paths.size());
            options.reading.range = {static_cast<double>(jobs.size()) / all,
                                     static_cast<double>(jobs.size() + 1) / all};
            const Job job = load(set, options);
            const Status of_job = report_status("compare", job.inputs, job.coverage, input.strict, "cep merge --run");
            status = std::max(status, of_job);
            const Ledger ledger = find_job_time(job, {{}, input.reading().thread_count()}).ledger;
            if (!(ledger.run.steps > 0)) throw UsageError("--scaling: no steps in " + path);
            jobs.push_back(compare::scaled_job(path, job, ledger));
        }
        output.write(compare::make_document(compare::compare_scaling(std::move(jobs))), input);
        return status;
    }

    [[nodiscard]] compare::JobFacts read(const std::string& name, const std::string& path,
                                         const std::string& files_from, const RunOptions& run_options) const {
        const InputSet set = find_inputs_beside(
            output.path, path.empty() ? std::vector<std::string>{} : std::vector<std::string>{path}, files_from);
        LoadOptions options = job_options.load_options(filter, input, run_options);
        options.reading.range = name == "A" ? WorkRange{0, 0.5} : WorkRange{0.5, 1};
        const Job loaded = load(set, options);
        compare::JobFacts facts =
            compare::facts_of_job("compare", name, path.empty() ? files_from : path, loaded,
                                  judge(loaded, {{}, input.reading().thread_count(), true}).verdict);
        report_inputs("compare: " + name, facts.inputs, facts.coverage, name == "A" ? "--run-a" : "--run-b");
        return facts;
    }

    [[nodiscard]] Status status_of(const compare::Comparison& comparison) const {
        using compare::Outcome;
        const bool step_is_slower = comparison.step && comparison.step->outcome == Outcome::slower;
        const bool step_is_undecided = !comparison.step || comparison.step->outcome == Outcome::undecided;
        const bool found = (fails_on("regression") && comparison.any(Outcome::slower)) ||
                           (fails_on("step-regression") && step_is_slower) ||
                           (fails_on("undecided") && step_is_undecided);
        if (found) return Status::finding;
        for (const compare::JobFacts* job : {&comparison.a, &comparison.b})
            if (cli::status_of(job->inputs, job->coverage, input.strict) == Status::incomplete)
                return Status::incomplete;
        return Status::done;
    }

    Status run() const {
        check();
        if (scaling) return run_scaling();
        compare::CompareOptions options;
        options.block_steps = static_cast<std::size_t>(block_steps);
        options.threshold = parse_threshold(threshold);
        compare::JobFacts a = read("A", path_a, files_from_a, run_a);
        compare::JobFacts b = read("B", path_b, files_from_b, run_b);
        for (const auto& [name, job] : {std::pair("A", &a), std::pair("B", &b)}) {
            if (!job->steps.step.ms.empty() || !job->steps.phases.empty()) continue;
            say("cep compare: no {} in {}\n", job->inputs.rows == 0 ? "rows" : "spans", name);
            return Status::nothing_readable;
        }
        compare::Comparison comparison = compare::compare_jobs(std::move(a), std::move(b), options);
        const Status status = status_of(comparison);
        output.write(compare::make_document(std::move(comparison)), input);
        return status;
    }

    void add_inputs(Arguments& app) {
        input.add_to(app);
        app.remove("INPUT");
        app.remove("--files-from");
        app.add(&path_a, {"A", "The job before: a rank file, a directory, a quoted glob, or -"});
        app.add(&path_b, {"B", "The job after"});
        app.add(&more, {"MORE", "With --scaling, further jobs"});
        app.add(&scaling, {"--scaling", "How much work a rank does in jobs of different sizes, and where it is lost"});
        app.add(&files_from_a, {"--files-from-a", "Read more inputs of A from FILE, one a line", "FILE"});
        app.add(&files_from_b, {"--files-from-b", "Read more inputs of B from FILE, one a line", "FILE"});
    }

    void add_test_options(Arguments& app) {
        app.add(&block_steps, {"--block", "Resample blocks of N recorded steps (default: as long as steps are alike)",
                               "N", whole_number_from(std::uint64_t{1}, std::uint64_t{1} << 32)});
        app.add(&threshold, {"--threshold", "Ignore smaller changes (default 0%)", "PERCENT"});
        app.add(
            &fail_on,
            {.names = "--fail-on",
             .help = "Exit with status 1 on any of: regression (the step or a phase takes longer), step-regression, "
                     "undecided (the steps cannot be compared); may be given again",
             .value = "LIST",
             .check = one_of({"regression", "step-regression", "undecided"}),
             .delimiter = ',',
             .is_repeated = true});
    }

    void add_to(Arguments& compare) {
        add_inputs(compare);
        add_test_options(compare);
        output.add_to(compare, "cep.compare/1", "The table, times in milliseconds, changes as fractions,");
        run_a.add_to(compare, "--run-a");
        run_b.add_to(compare, "--run-b");
        filter.add_to(compare);
        job_options.add_to(compare, "Most durations of a job; with more, nothing is compared");
        compare.set_examples(
            "  cep compare before/ after/\n"
            "  cep compare --steps 100: before/ after/\n"
            "  cep compare --threshold 2% --fail-on regression main.jsonl.zst branch/\n"
            "  cep compare --scaling 8_ranks/ 16_ranks/ 32_ranks/\n"
            "  cep compare --json before/ after/ | jq '.phases[] | {name, finding, change}'");
    }
};

}  // namespace

const CommandFacts compare_command{"What changed from one job to another, and what of it is significant",
                                   add_options<CompareCommand>};

}  // namespace cep::cli
