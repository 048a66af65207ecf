// SPDX-License-Identifier: Apache-2.0
//
// cep check
#include <fmt/format.h>
#include <memory>

#include "base/output.hpp"
#include "base/say.hpp"
#include "check/check_text.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "read/read_all.hpp"
#include "read/rows_only.hpp"

namespace cep::cli {
namespace {

using namespace tool;

struct CheckCommand {
    InputOptions input;
    bool json = false;

    Status run() const;
};

// A file that is there and holds nothing is a finding; no file at all is nothing to check.
Status CheckCommand::run() const {
    const InputSet set = input.find();
    JobCheck job;
    const InputCounts counts = read_all(
        set, input.reading(),
        [](const InputFile& file, std::size_t) { return std::make_unique<RowsOnly<FileCheck>>(file.path, file); },
        [&](FileCheck&& file, FileReport&& report) { job.add(std::move(file), std::move(report)); });
    const CheckResult result = job.finish(counts);
    write_standard_output(json ? check_json(result) : check_text(result, input.colors()));
    if (counts.files == 0) {
        for (const std::string& why : counts.unreadable) say("cep check: {}\n", why);
        return Status::nothing_readable;
    }
    return input.strict && result.severity >= Severity::incomplete ? Status::incomplete : Status::done;
}

}  // namespace

void add_check(CLI::App& app, Command& run) {
    auto command = std::make_shared<CheckCommand>();
    CLI::App* check = app.add_subcommand("check", "Whether rank files are whole, in order and complete");
    command->input.add_to(*check);
    check->add_flag("--json", command->json, "As JSON (schema cep.check/1)");
    set_examples(*check,
                 "  cep check output/cuda_event_profiler\n"
                 "  cep check --strict output && cep merge -o job.jsonl output\n"
                 "  cep check --json output | jq '.files[] | select(.severity != \"fine\") | .path'");
    check->callback([command, &run] { run = [command] { return command->run(); }; });
}

}  // namespace cep::cli
