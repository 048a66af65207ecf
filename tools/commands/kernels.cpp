// SPDX-License-Identifier: Apache-2.0
//
// cep kernels
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/output.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "base/say.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "kernels/kernel_report.hpp"
#include "kernels/report_text.hpp"
#include "kernels/trace_inputs.hpp"
#include "read/read_all.hpp"

namespace cep::cli {
namespace {

using tool::Status;

struct KernelsCommand {
    InputOptions input;
    std::string out;
    std::size_t top = 15;
    bool json = false;
    bool csv = false;
    bool markdown = false;

    Status run() const;
    [[nodiscard]] tool::InputSet find() const;
    [[nodiscard]] kernels::KernelReport read(const tool::InputSet& set) const;
    [[nodiscard]] std::string format(const kernels::KernelReport& report) const;
    [[nodiscard]] Status status_of(const kernels::KernelReport& report) const;
};

tool::InputSet KernelsCommand::find() const {
    if (input.inputs.empty() && input.files_from.empty())
        throw tool::UsageError("no input: name a trace or a directory of traces");
    if (json + csv + markdown > 1) throw tool::UsageError("only one of --json, --csv and --markdown");
    tool::InputSet set = kernels::find_traces(input.inputs, input.files_from);
    for (const tool::InputFile& file : set.files) {
        std::error_code error;
        if (!out.empty() && std::filesystem::equivalent(file.path, out, error))
            throw tool::UsageError("--output: this is one of the traces: " + out);
    }
    return set;
}

kernels::KernelReport KernelsCommand::read(const tool::InputSet& set) const {
    tool::Progress progress(set.size_bytes);
    std::vector<kernels::TraceOutcome> outcomes(set.files.size());
    tool::for_all(set.files.size(), input.reading().thread_count(), [&](std::size_t i) {
        outcomes[i] = kernels::read_and_analyze(set.files[i], [&](std::uint64_t bytes) { progress.advance(bytes); });
    });
    return kernels::make_report(std::move(outcomes), set);
}

std::string KernelsCommand::format(const kernels::KernelReport& report) const {
    if (json) return kernels::report_json(report, top);
    if (csv) return kernels::report_csv(report);
    if (markdown) return kernels::report_markdown(report, top);
    return kernels::report_text(report, top, input.colors());
}

Status KernelsCommand::status_of(const kernels::KernelReport& report) const {
    if (report.ranks.empty()) return Status::nothing_readable;
    const bool complete = report.inputs.complete() && report.missing_ranks.empty();
    return input.strict && !complete ? Status::incomplete : Status::done;
}

void say_gaps(const kernels::KernelReport& report) {
    constexpr std::size_t max_shown = 10;
    const std::string gaps = kernels::describe_gaps(report);
    if (!gaps.empty()) tool::say("cep kernels: {}\n", gaps);
    const std::vector<std::string>& messages = report.inputs.messages;
    for (std::size_t i = 0; i < std::min(messages.size(), max_shown); ++i) tool::say("cep kernels: {}\n", messages[i]);
    if (messages.size() > max_shown) tool::say("cep kernels: … and {} more\n", messages.size() - max_shown);
    if (report.ranks.empty()) tool::say("cep kernels: no GPU events in any input\n");
}

Status KernelsCommand::run() const {
    const tool::InputSet set = find();
    const kernels::KernelReport report = read(set);
    say_gaps(report);
    const Status status = status_of(report);
    if (status == Status::nothing_readable) return status;
    if (!out.empty()) {
        tool::Output file(out);
        file.write(kernels::report_markdown(report, top));
        file.close();
    }
    if (out != "-") tool::write_standard_output(format(report));
    return status;
}

}  // namespace

void add_kernels(CLI::App& app, Command& run) {
    auto command = std::make_shared<KernelsCommand>();
    CLI::App* kernels =
        app.add_subcommand("kernels", "What GPUs did in torch.profiler traces: matmul, comm, memory, other");
    command->input.add_to(*kernels);
    kernels->get_option("INPUT")->description("Traces, directories of them, quoted globs, or - for standard input");
    kernels->add_option("--top", command->top, "Show the N kernels with the most time, 0: all (default 15)")
        ->option_text("N");
    kernels
        ->add_option("-o,--output", command->out,
                     "Also write the summary as Markdown to F, such as summary.md (-: only that)")
        ->option_text("F");
    kernels->add_flag("--json", command->json, "As JSON (schema cep.kernels/1)");
    kernels->add_flag("--csv", command->csv, "A line for each rank as CSV, times in milliseconds");
    kernels->add_flag("--markdown", command->markdown, "As GitHub Markdown");
    set_examples(*kernels,
                 "  cep kernels trace.json.gz\n"
                 "  cep kernels -o summary.md traces/\n"
                 "  cep kernels --top 30 'traces/rank*_trace.json'\n"
                 "  cep kernels --json traces/ | jq '.total.classes'");
    kernels->callback([command, &run] { run = [command] { return command->run(); }; });
}

}  // namespace cep::cli
