// SPDX-License-Identifier: Apache-2.0
//
// cep summarize
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <utility>

#include "base/output.hpp"
#include "base/say.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "read/read_all.hpp"
#include "summary/summary.hpp"
#include "summary/summary_reader.hpp"
#include "summary/summary_text.hpp"
#include "verdict/verdict_text.hpp"

namespace cep::cli {
namespace {

using namespace tool;

struct SummarizeCommand {
    InputOptions input;
    FilterOptions filter;
    std::string attempt;
    std::string by = "phase";
    std::string save;
    std::uint64_t limit = 40;
    std::uint64_t max_samples = SummaryOptions::default_max_samples;
    std::vector<std::string> fail_on;
    std::optional<double> peak_flops;
    bool no_verdict = false;
    bool json = false;
    bool csv = false;
    bool markdown = false;

    Status run() const;
    [[nodiscard]] SummaryOptions options() const;
    [[nodiscard]] InputCounts read(JobSummary& job, const SummaryOptions& options) const;
    Status show(SummaryResult&& result, const std::vector<FailCondition>& conditions) const;
    [[nodiscard]] std::string format(const SummaryResult& result) const;
};

SummaryOptions SummarizeCommand::options() const {
    if (no_verdict && !fail_on.empty()) throw UsageError("--fail-on needs the verdict that --no-verdict leaves out");
    if (json + csv + markdown > 1) throw UsageError("only one of --json, --csv and --markdown");
    if (rank_of_file_name(save)) throw UsageError("--save: a rank file has this name: " + save);
    return {filter.filter(), AttemptChoice::parse(attempt.empty() ? "last" : attempt),
            max_samples,     Grouping::parse(by),
            !no_verdict,     input.reading().thread_count(),
            peak_flops};
}

std::string SummarizeCommand::format(const SummaryResult& result) const {
    if (json) return summary_json(result);
    if (csv) return summary_csv(result);
    if (markdown) return summary_markdown(result, limit);
    return summary_text(result, limit, input.colors());
}

InputCounts SummarizeCommand::read(JobSummary& job, const SummaryOptions& options) const {
    const PartialScope scope = options.scope();
    SummaryReader reader(job, scope, scope == PartialScope{} && attempt.empty());
    const InputSet set = input.find();
    // The counts of partial summaries are those of their inputs, so that the reader keeps its own.
    static_cast<void>(read_all(
        set, input.reading(), [&](const InputFile&, std::size_t) { return reader.new_input(); },
        [&](SummaryInput&& one, FileReport&& report) { reader.take(std::move(one), std::move(report)); }));
    return reader.finish(set);
}

Status SummarizeCommand::show(SummaryResult&& result, const std::vector<FailCondition>& conditions) const {
    report_inputs("summarize", result.inputs, result.coverage);
    const Status status = status_of(result.inputs, result.coverage, input.strict);
    if (status == Status::nothing_readable) {
        say("cep summarize: no rows in any input\n");
        return status;
    }
    if (result.phases.empty()) say("cep summarize: no spans among the rows that were asked for\n");
    if (save != "-") write_standard_output(format(result));
    for (const FailCondition& condition : conditions)
        if (condition.is_in(*result.verdict)) {
            say("cep summarize: --fail-on {}: {}\n", condition.name(), verdict_text(*result.verdict).headline);
            return Status::finding;
        }
    return status;
}

Status SummarizeCommand::run() const {
    const SummaryOptions chosen = options();
    std::vector<FailCondition> conditions;
    for (const std::string& condition : fail_on) conditions.push_back(FailCondition::parse(condition));
    std::optional<Output> saved;
    if (!save.empty()) saved.emplace(save);
    JobSummary job(chosen);
    const InputCounts counts = read(job, chosen);
    if (saved) {
        job.save(*saved, counts);
        saved->close();
    }
    SummaryResult result = job.finish();
    result.inputs = counts;
    return show(std::move(result), conditions);
}

}  // namespace

void add_summarize(CLI::App& app, Command& run) {
    auto command = std::make_shared<SummarizeCommand>();
    CLI::App* summarize = app.add_subcommand("summarize", "What the job did, and a table of its phases");
    command->input.add_to(*summarize);
    summarize->add_flag("--json", command->json, "As JSON (schema cep.summary/1)");
    summarize->add_flag("--csv", command->csv, "The table as CSV, times in milliseconds");
    summarize->add_flag("--markdown", command->markdown, "The table as GitHub Markdown");
    summarize
        ->add_option("--by", command->by,
                     "A line for each phase, or for each phase of each rank, host, or window of N steps: phase, rank, "
                     "host, step:N (default phase)")
        ->type_name("WHAT");
    summarize->add_option("--limit", command->limit, "At most N lines with --by, 0: all (default 40)")->type_name("N");
    command->filter.add_to(*summarize);
    summarize
        ->add_option("--save", command->save,
                     "Also write a partial summary to F (-: only that), to be an input later; .gz and .zst compress")
        ->type_name("F");
    summarize
        ->add_option(
            "--fail-on", command->fail_on,
            "Exit with status 1 on a finding: straggler, imbalance, change, abstained, or bound:NAME with compute, "
            "comm, data, host, mixed or unknown; may be given more than once")
        ->allow_extra_args(false)
        ->type_name("FINDING");
    summarize->add_flag("--no-verdict", command->no_verdict, "The table only, in two thirds of the time");
    summarize
        ->add_option(
            "--peak-flops", command->peak_flops,
            "Peak of each device for MFU, FLOP/s (default: what run rows say, else that of known GPUs in 16 bits)")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
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
                 "  cep summarize --by rank --limit 10 output\n"
                 "  cep summarize --save node3.partial.zst output\n"
                 "  cep summarize 'node*.partial.zst'\n"
                 "  cep summarize --json output | jq '.phases[] | {name, p50_ms, slowest_rank}'");
    summarize->callback([command, &run] { run = [command] { return command->run(); }; });
}

}  // namespace cep::cli
