// SPDX-License-Identifier: Apache-2.0
//
// cep summarize
#include <fmt/format.h>
#include <memory>

#include "analysis/output.hpp"
#include "analysis/read_all.hpp"
#include "analysis/summary.hpp"
#include "analysis/summary_text.hpp"
#include "commands.hpp"
#include "options.hpp"

namespace cep::cli {
namespace {

using namespace analysis;

struct SummarizeCommand {
    InputOptions input;
    FilterOptions filter;
    std::string attempt = "last";
    std::uint64_t max_samples = SummaryOptions::default_max_samples;
    bool json = false;
    bool csv = false;
    bool markdown = false;

    Status run() const;
    [[nodiscard]] std::string format(const SummaryResult& result) const;
};

std::string SummarizeCommand::format(const SummaryResult& result) const {
    if (json) return summary_json(result);
    if (csv) return summary_csv(result);
    if (markdown) return summary_markdown(result);
    return summary_text(result, input.colors());
}

Status SummarizeCommand::run() const {
    if (json + csv + markdown > 1) throw UsageError("only one of --json, --csv and --markdown");
    JobSummary job({filter.filter(), AttemptChoice::parse(attempt), max_samples});
    const InputSet set = input.find();
    const InputCounts counts = read_all(
        set, [&](const InputFile&, std::size_t) { return job.new_file(); },
        [&](FileSummary&& file, FileReport&&) { job.add(std::move(file)); });
    SummaryResult result = job.finish();
    result.inputs = counts;
    report_inputs("summarize", counts, result.coverage);
    const Status status = status_of(counts, result.coverage, input.strict);
    if (status == Status::nothing_readable) {
        fmt::print(stderr, "cep summarize: no rows in any input\n");
        return status;
    }
    if (result.phases.empty()) fmt::print(stderr, "cep summarize: no spans among the rows that were asked for\n");
    write_standard_output(format(result));
    return status;
}

}  // namespace

void add_summarize(CLI::App& app, Command& run) {
    auto command = std::make_shared<SummarizeCommand>();
    CLI::App* summarize = app.add_subcommand("summarize", "What the job did, and a table of its phases");
    command->input.add_to(*summarize);
    summarize->add_flag("--json", command->json, "As JSON (schema cep.summary/1)");
    summarize->add_flag("--csv", command->csv, "The table as CSV, times in milliseconds");
    summarize->add_flag("--markdown", command->markdown, "The table as GitHub Markdown");
    command->filter.add_to(*summarize);
    summarize
        ->add_option("--attempt", command->attempt,
                     "Which attempt of a repeated step counts: last, all, or only attempt N (default last)")
        ->type_name("WHICH");
    summarize
        ->add_option("--max-samples", command->max_samples,
                     "Durations kept for exact percentiles; beyond it they are within 0.5 % (default 16000000)")
        ->type_name("N");
    set_examples(*summarize,
                 "  cep summarize output/cuda_event_profiler\n"
                 "  cep summarize --steps 1000: --ranks 0-7 output\n"
                 "  cep summarize --json output | jq '.phases[] | {name, p50_ms, slowest_rank}'");
    summarize->callback([command, &run] { run = [command] { return command->run(); }; });
}

}  // namespace cep::cli
