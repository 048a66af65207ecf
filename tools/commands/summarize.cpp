// SPDX-License-Identifier: Apache-2.0
//
// cep summarize
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/terminal.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "model/load.hpp"
#include "summary/step_picture.hpp"
#include "summary/summary.hpp"
#include "summary/summary_document.hpp"
#include "verdict/fail_condition.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::cli {
namespace {

using namespace tool;

struct SummarizeCommand {
    InputOptions input;
    FilterOptions filter;
    OutputOptions output;
    RunOptions run_options;
    JobOptions job_options;
    std::string by = "phase";
    std::string save;
    std::vector<std::string> fail_on;
    std::optional<double> peak_flops;
    bool no_verdict = false;
    bool pictures = false;
    bool no_pictures = false;

    void check() const {
        output.check();
        if (no_verdict && !fail_on.empty())
            throw UsageError("--fail-on needs the verdict that --no-verdict leaves out");
        if (pictures && no_pictures) throw UsageError("only one of --pictures and --no-pictures");
        if (!save.empty())
            throw UsageError(
                "--save: there are no partial summaries; run cep merge -o node.jsonl.zst on each node, then one "
                "cep summarize of these files");
    }

    [[nodiscard]] Job load_inputs(const InputSet& inputs) const {
        LoadOptions options = job_options.load_options(filter, input, run_options);
        options.numbers_collectives = !no_verdict;
        return load(inputs, options);
    }

    // Pictures are for people at a terminal; what is written to a file is read by programs too.
    [[nodiscard]] Rendering rendering() const {
        Rendering rendering = output.rendering(input);
        const bool to_terminal = (output.path.empty() || output.path == "-") && ::isatty(STDOUT_FILENO) != 0;
        const bool draws = rendering.format == Format::text && !no_verdict && !no_pictures && (pictures || to_terminal);
        const bool plain = to_terminal && !is_terminal(STDOUT_FILENO);
        if (draws) rendering.pictures = {output_columns(), locale_is_utf8() && !plain};
        return rendering;
    }

    Status show(const InputSet& inputs, const Job& job, const Grouping& grouping,
                const std::vector<FailCondition>& conditions) const {
        const std::size_t threads = input.reading().thread_count();
        std::optional<Verdict> verdict;
        std::optional<StepPicture> picture;
        const Rendering rendering = this->rendering();
        if (!no_verdict) {
            Judgement judgement = judge(job, {peak_flops, threads});
            if (rendering.pictures.columns > 0) picture = draw_steps(job, judgement);
            verdict = std::move(judgement.verdict);
        }
        Summary summary = summarize(job, grouping, threads, verdict ? &*verdict : nullptr);
        summary.oom_snapshots = find_oom_snapshots(inputs);
        const Status status = report_status("summarize", job.inputs, job.coverage, input.strict);
        if (status == Status::nothing_readable) return status;
        if (verdict && verdict->folded_phases > 0) say("cep summarize: {}\n", describe_folded_phases(*verdict));
        if (summary.phases.empty()) say_no_spans("summarize");
        Document document = summary_document(job, summary, verdict ? &*verdict : nullptr, rendering);
        document.picture = std::move(picture);
        output.write(document, rendering);
        for (const FailCondition& condition : conditions)
            if (is_in(condition, *verdict)) {
                say("cep summarize: --fail-on {}: {}\n", condition, verdict_document(*verdict).headline);
                return Status::finding;
            }
        return status;
    }

    Status run() const {
        check();
        const Grouping grouping = Grouping::parse(by);
        const std::vector<FailCondition> conditions = parse_fail_conditions(fail_on);
        const InputSet inputs = input.find(output.path);
        return show(inputs, load_inputs(inputs), grouping, conditions);
    }

    void add_to(Arguments& summarize) {
        input.add_to(summarize);
        output.add_to(summarize, "cep.summary/1", "The table, times in milliseconds,");
        summarize.add(&by, {"--by",
                            "A line for each phase, or for each phase of each rank, host, or window of N steps: phase, "
                            "rank, host, step:N (default phase)",
                            "WHAT"});
        run_options.add_to(summarize);
        filter.add_to(summarize);
        summarize.add(&save, {.names = "--save", .is_hidden = true});  // check() says what to use
        summarize.add(
            &fail_on,
            {.names = "--fail-on",
             .help = "Exit with status 1 on a finding: straggler, imbalance, change, abstained, or bound:NAME with "
                     "compute, "
                     "comm, data, host, mixed or unknown; may be given more than once, or as a list with commas",
             .value = "FINDING",
             .is_repeated = true});
        summarize.add(&no_verdict, {"--no-verdict", "Skip the verdict (about half of the time)"});
        summarize.add(&pictures,
                      {"--pictures", "Draw the steps of ranks and phases in the text even if it goes to no terminal"});
        summarize.add(&no_pictures, {"--no-pictures", "Draw nothing on a terminal either"});
        add_peak_flops(summarize, peak_flops);
        job_options.add_to(summarize,
                           "Durations kept; beyond it, percentiles and the verdict are of some of the steps");
        summarize.set_examples(
            "  cep summarize output/cuda_event_profiler\n"
            "  cep summarize --steps 1000: --ranks 0-7 output\n"
            "  cep summarize --by rank --limit 10 output\n"
            "  cep summarize 'node*.jsonl.zst'\n"
            "  cep summarize --json output | jq '.phases[] | {name, p50_ms, slowest_rank}'");
    }
};

}  // namespace

const CommandFacts summarize_command{"Who is slow, where the time went, what to do, and a table of phases",
                                     add_options<SummarizeCommand>};

}  // namespace cep::cli
