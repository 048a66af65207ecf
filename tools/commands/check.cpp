// SPDX-License-Identifier: Apache-2.0
//
// cep check
#include <memory>

#include "base/say.hpp"
#include "check/job_check.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "read/read_run.hpp"

namespace cep::cli {
namespace {

using namespace tool;

Status status_of_check(const InputCounts& inputs, Severity severity, bool lenient) {
    if (inputs.rows == 0) return Status::nothing_readable;
    return severity >= Severity::incomplete && !lenient ? Status::incomplete : Status::done;
}

struct CheckCommand {
    InputOptions input;
    RunOptions run_options;
    OutputOptions output;
    bool lenient = false;

    Status run() const {
        output.check();
        const InputSet set = input.find(output.path);
        JobCheck job;
        RunSelection selection(run_options.choice());
        const InputCounts counts = read_run(
            set, input.reading(), selection, [&] { job = JobCheck(); },
            [](const InputFile& file, std::size_t) { return std::make_unique<FileCheck>(file); },
            [&](FileCheck&& file, FileReport&& report) { job.add(std::move(file), std::move(report)); });
        CheckResult result = job.finish(counts);
        if (counts.runs_left_out > 0) say("cep check: {}\n", describe_other_runs(counts));
        const Status status = status_of_check(counts, result.severity, lenient);
        output.write(make_document(std::move(result)), input);
        if (counts.files == 0)
            for (const std::string& why : counts.unreadable) say("cep check: {}\n", why);
        return status;
    }

    void add_to(Arguments& check) {
        input.add_to(check);
        run_options.add_to(check);
        output.add_to(check, "cep.check/1", "A line for each file");
        check.set_help("--strict", "Exit with status 4 if the input is incomplete or damaged (the default)");
        check.add(&lenient, {"--lenient", "Exit with status 0 if the input is incomplete or damaged"});
        check.exclude("--lenient", "--strict");
        check.set_examples(
            "  cep check output/cuda_event_profiler\n"
            "  cep check output && cep merge -o job.jsonl output\n"
            "  cep check --json output | jq '.files[] | select(.severity != \"fine\") | .path'");
    }
};

}  // namespace

const CommandFacts check_command{"Whether rank files are whole, in order and complete", add_options<CheckCommand>};

}  // namespace cep::cli
