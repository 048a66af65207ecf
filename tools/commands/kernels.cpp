// SPDX-License-Identifier: Apache-2.0
//
// cep kernels
#include <algorithm>
#include <utility>

#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "kernels/kernel_report.hpp"
#include "read/read_run.hpp"

namespace cep::cli {
namespace {

using tool::Status;

void say_gaps(const kernels::KernelReport& report) {
    if (report.inputs.are_of_cpus())
        return tool::say("cep kernels: {} of CPUs only: no GPU events\n",
                         tool::format_plural(report.inputs.files, "trace"));
    constexpr std::size_t max_shown = 10;
    const std::string gaps = kernels::describe_gaps(report);
    if (!gaps.empty()) tool::say("cep kernels: {}\n", gaps);
    const std::vector<std::string>& messages = report.inputs.messages;
    for (std::size_t i = 0; i < std::min(messages.size(), max_shown); ++i) tool::say("  {}\n", messages[i]);
    if (messages.size() > max_shown) tool::say("  … and {} more\n", messages.size() - max_shown);
    if (report.ranks.empty()) tool::say("cep kernels: no GPU events in any input\n");
}

struct KernelsCommand {
    static constexpr std::uint64_t default_limit = 15;

    InputOptions input;
    OutputOptions output;

    [[nodiscard]] tool::InputSet find() const {
        if (input.inputs.empty() && input.files_from.empty())
            throw tool::UsageError("no input: name a trace or a directory of traces");
        output.check();
        return find_inputs_beside(output.path, input.inputs, input.files_from, "", kernels::find_traces);
    }

    [[nodiscard]] kernels::KernelReport read(const tool::InputSet& set) const {
        tool::Progress progress(set.size_bytes);
        std::vector<kernels::TraceOutcome> outcomes(set.files.size());
        tool::for_all(set.files.size(), input.reading().thread_count(),
                      [&](std::size_t i) { outcomes[i] = kernels::read_and_analyze(set.files[i], progress); });
        return kernels::make_report(std::move(outcomes), set);
    }

    [[nodiscard]] Status status_of(const kernels::KernelReport& report) const {
        if (report.ranks.empty() && !report.inputs.are_of_cpus()) return Status::nothing_readable;
        const bool complete = report.inputs.complete() && report.coverage.missing_ranks.empty();
        return input.strict && !complete ? Status::incomplete : Status::done;
    }

    Status run() const {
        const tool::InputSet set = find();
        kernels::KernelReport report = read(set);
        say_gaps(report);
        const Status status = status_of(report);
        if (status == Status::nothing_readable) return status;
        output.write(kernels::make_document(std::move(report), output.rendering(input)), input);
        return status;
    }

    void add_to(Arguments& kernels) {
        input.add_to(kernels);
        kernels.set_help("INPUT", "Traces, directories of them, quoted globs, or - for standard input");
        output.limit = KernelsCommand::default_limit;
        output.add_to(kernels, "cep.kernels/3", "A line for each rank, times in milliseconds,");
        kernels.set_help("--limit", "At most N lines in a table, and N kernels in JSON; 0: all (default 15)");
        kernels.set_examples(
            "  cep kernels trace.json.gz\n"
            "  cep kernels -o summary.md traces/\n"
            "  cep kernels --limit 30 'traces/rank*_trace.json'\n"
            "  cep kernels --json traces/ | jq '.total.classes'");
    }
};

}  // namespace

const CommandFacts kernels_command{"What GPUs did in torch.profiler traces: matmul, attention, comm, memory, other",
                                   add_options<KernelsCommand>};

}  // namespace cep::cli
