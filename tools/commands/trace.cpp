// SPDX-License-Identifier: Apache-2.0
//
// cep trace
#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "merge/row_sorter.hpp"
#include "merge/spill_file.hpp"
#include "model/clock_shifts.hpp"
#include "model/load.hpp"
#include "read/read_run.hpp"
#include "trace/selection.hpp"
#include "trace/trace_rows.hpp"
#include "trace/trace_writer.hpp"

namespace cep::cli {
namespace {

using namespace tool;

constexpr std::uint64_t default_max_bytes = 200'000'000;
// The share of the work that is done when the job is loaded.
constexpr double load_end = 0.4;

struct TraceCommand {
    InputOptions input;
    FilterOptions filter;
    RunOptions run_options;
    std::string attempt = "all";
    std::string out;
    std::uint64_t max_bytes = default_max_bytes;
    bool all = false;

    [[nodiscard]] bool selects() const { return !all && (filter.ranks.empty() || filter.steps.empty()); }

    /// Limits a filter to what the selection has and the command line left open.
    void narrow(Filter& shown, const Selection& selection) const {
        if (filter.ranks.empty()) shown.set_ranks(join(selection.ranks, ","));
        if (filter.steps.empty())
            shown.set_steps(fmt::format("{}:{}", selection.steps.front(), selection.steps.back()));
    }

    [[nodiscard]] std::string describe_ranks_left_out(const Selection& selection) const {
        const std::vector<std::int64_t>& ranks = selection.ranks;
        const std::string count = fmt::format("{} of {} ranks", format_count(selection.ranks_of_job - ranks.size()),
                                              format_count(selection.ranks_of_job));
        if (ranks.size() < 3) return count;
        return fmt::format("{} (all but {}, {} and {}, which have the least, median and most work of their own)", count,
                           ranks[0], ranks[1], ranks[2]);
    }

    [[nodiscard]] std::vector<std::string> not_selected(const Selection& selection) const {
        std::vector<std::string> left_out;
        if (filter.ranks.empty() && selection.ranks.size() < selection.ranks_of_job)
            left_out.push_back(describe_ranks_left_out(selection));
        if (filter.steps.empty() && selection.first_step_of_job < selection.steps.front())
            left_out.push_back(fmt::format("steps {} to {}", format_integer(selection.first_step_of_job),
                                           format_integer(selection.steps.front() - 1)));
        return left_out;
    }

    // One message.
    void report(const std::optional<Selection>& selection, const TraceWriter::Counts& counts) const {
        std::vector<std::string> left_out;
        if (selection) left_out = not_selected(*selection);
        const bool selected = !left_out.empty();
        const bool is_full = counts.over_limit > 0;
        if (is_full)
            left_out.push_back(fmt::format("the last {} of {} rows", format_count(counts.over_limit),
                                           format_count(counts.over_limit + counts.written)));
        if (counts.without_start > 0)
            left_out.push_back(format_plural(counts.without_start, "row") + " without start_ns");
        if (counts.without_track > 0)
            left_out.push_back(format_plural(counts.without_track, "row") + " for which there were too many tracks");
        const std::string_view hint = selected && is_full
                                          ? "; --ranks, --steps, --all and a larger --max-bytes show them"
                                      : selected ? "; --ranks, --steps or --all show them"
                                      : is_full  ? "; a larger --max-bytes shows them"
                                                 : "";
        const std::string_view nothing = counts.written == 0 ? "nothing to show; " : "";
        if (!left_out.empty()) {
            say("cep trace: {}left out {}{}\n", nothing, join(left_out, "; "), hint);
        } else if (counts.written == 0) {
            say_no_spans("trace");
        }
    }

    /// For the ranks and steps to show, and for clocks; the communication alone where only these are left.
    [[nodiscard]] Job load_job(const InputSet& set) const {
        constexpr std::uint64_t max_samples = 4'000'000;
        LoadOptions options{filter.filter().of_steps(), run_options.choice(), AttemptChoice::parse(attempt),
                            max_samples, input.reading({0, load_end})};
        options.keeps_messages = true;
        options.only_comm = !selects();
        return load(set, options);
    }

    void say_clocks(const ClockShifts& clocks) const {
        if (!clocks.any()) return;
        say("cep trace: the clocks of hosts are up to {} apart; they are set right by the ends of the collectives that "
            "hosts share, to within {}\n",
            format_duration_ms(clocks.most_ms()), format_duration_ms(clocks.error_ms()));
    }

    InputCounts collect(const InputSet& set, const TraceFilter& filters, const ClockShifts& clocks, RunSelection& run,
                        std::optional<RowSorter>& sorter, TraceFacts& facts) const {
        const auto restart = [&] {
            sorter.emplace(RowSorter::default_memory_bytes, spill_directory_for(out), input.reading().thread_count());
            facts = {};
        };
        restart();
        return read_run(
            set, input.reading({load_end, 1}), run, restart,
            [&](const InputFile&, std::size_t index) {
                return std::make_unique<FileTrace>(filters, clocks, *sorter, index);
            },
            [&](FileTrace&& file, FileReport&&) { facts.merge(std::move(file.facts())); });
    }

    Status run() const {
        TraceFilter filters{filter.filter(), filter.filter(), AttemptChoice::parse(attempt)};
        InputSet set = input.find(out);
        const StreamCopies copies = copy_streams(set, spill_directory_for(out));
        std::optional<Selection> selection;
        ClockShifts clocks;
        RunSelection run(run_options.choice());
        {
            Job job = load_job(set);
            if (selects()) selection = select(job, filters.asked);
            if (selection) narrow(filters.shown, *selection);
            clocks = {job, selection && filter.steps.empty() ? selection->steps : std::vector<std::int64_t>()};
            run = std::move(job.selection);
        }
        Output output(out);
        std::optional<RowSorter> sorter;
        TraceFacts facts;
        const InputCounts counts = collect(set, filters, clocks, run, sorter, facts);
        const Coverage covered = facts.coverage.finish(filters.asked);
        const Status status = report_status("trace", counts, covered, input.strict);
        if (status == Status::nothing_readable) return status;
        TraceWriter writer(output, max_bytes, filters.shown, facts, clocks);
        sorter->finish([&](const RowEntry& entry, std::string_view text) { writer.take(entry, text); });
        writer.finish();
        output.close();
        say_written("trace", out, format_plural(writer.counts().written, "row"));
        report(selection, writer.counts());
        say_clocks(clocks);
        return status;
    }

    void add_to(Arguments& trace) {
        input.add_to(trace);
        trace.add(&out, {"-o,--output", "Write to F (default: standard output); .gz and .zst compress", "F"});
        run_options.add_to(trace);
        filter.add_to(trace);
        add_attempt_of_rows(trace, attempt);
        trace.add(&all, {"--all", "All ranks and steps, or all that --ranks and --steps name"});
        trace.add(&max_bytes,
                  {"--max-bytes", "End the trace before it has more than N bytes, uncompressed (default 200000000)",
                   "N", whole_number_from(std::uint64_t{1000}, std::uint64_t{1} << 50)});
        trace.set_examples(
            "  cep trace -o trace.json.gz output/cuda_event_profiler\n"
            "  cep trace --ranks 3,7 --steps 1000:1010 -o slow.json output\n"
            "  cep trace --all --max-bytes 2000000000 -o all.json.gz output\n"
            "Open the file at https://ui.perfetto.dev or in chrome://tracing.");
    }
};

}  // namespace

const CommandFacts trace_command{"A timeline of ranks and streams for Perfetto or chrome://tracing",
                                 add_options<TraceCommand>};

}  // namespace cep::cli
