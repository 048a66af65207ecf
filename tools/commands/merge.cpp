// SPDX-License-Identifier: Apache-2.0
//
// cep merge
#include <memory>

#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "merge/merger.hpp"
#include "merge/row_sorter.hpp"
#include "merge/spill_file.hpp"
#include "read/read_run.hpp"

namespace cep::cli {
namespace {

using namespace tool;

struct MergeCommand {
    InputOptions input;
    FilterOptions filter;
    RunOptions run_options{"all"};
    std::string out;
    std::string attempt = "all";
    std::uint64_t memory_mib = RowSorter::default_memory_bytes >> 20;
    bool force = false;

    // In other commands, only the rows of one of them count.
    void say_runs(const RunSelection& selection) const {
        const std::vector<InputRun>& runs = selection.runs();
        if (run_options.run != "all" || runs.size() < 2) return;
        say("cep merge: rows of {}, which other commands do not take as one; the latest is {}: --run latest merges "
            "only its rows\n",
            format_plural(runs.size(), "run"), describe_run(runs.back()));
    }

    Status run() const {
        const MergeOptions options{filter.filter(), AttemptChoice::parse(attempt)};
        const InputSet set = input.find(force ? "" : out, "; --force replaces it");
        Output output(out);
        RunIndex runs;
        CoverageCollector coverage;
        std::uint64_t text_bytes = 0;
        std::optional<RowSorter> sorter;
        const auto restart = [&] {
            sorter.emplace(memory_mib << 20, spill_directory_for(out), input.reading().thread_count());
            coverage = {};
            text_bytes = 0;
        };
        restart();
        RunSelection selection(run_options.choice());
        const InputCounts counts = read_run(
            set, input.reading({0, 0.5}), selection, restart,
            [&](const InputFile&, std::size_t index) {
                return std::make_unique<FileMerge>(options, *sorter, runs, index);
            },
            [&](FileMerge&& file, FileReport&&) {
                coverage.merge(file.coverage());
                text_bytes += file.text_bytes();
            });
        const Coverage covered = coverage.finish(options.filter);
        const Status status = report_status("merge", counts, covered, input.strict);
        if (status == Status::nothing_readable) return status;
        say_runs(selection);
        Progress progress(text_bytes, {0.5, 1}, "written");
        RowWriter writer(output, progress, runs, options.attempt.mode == AttemptChoice::Mode::last);
        sorter->finish([&](const RowEntry& row, std::string_view text) { writer.take(row, text); });
        writer.finish();
        output.close();
        if (writer.rows() == 0) say("cep merge: no rows among those that were asked for\n");
        say_written("merge", out, format_plural(writer.rows(), "row"));
        return status;
    }

    void add_to(Arguments& merge) {
        input.add_to(merge);
        merge.add(&out, {"-o,--output", "Write to OUT (default: standard output); .gz and .zst compress", "OUT"});
        merge.add(&force, {"--force", "Replace OUT even if it is one of the inputs or has the name of a rank file"});
        run_options.add_to(merge);
        filter.add_to(merge);
        add_attempt_of_rows(merge, attempt);
        merge.add(&memory_mib, {"--memory-mib", "Sort in this much memory, the rest on disk (default 256)", "MIB",
                                whole_number_from(std::uint64_t{1}, std::uint64_t{1} << 20)});
        merge.set_examples(
            "  cep merge -o job.jsonl output/cuda_event_profiler\n"
            "  cep merge --steps 1000:2000 --ranks 0,8-15 output | gzip > part.jsonl.gz\n"
            "  cep merge -o job.jsonl.zst 'run*/cuda_events_rank_*.jsonl.gz'");
    }
};

}  // namespace

const CommandFacts merge_command{"One JSONL file of all ranks, ordered by step, start and rank",
                                 add_options<MergeCommand>};

}  // namespace cep::cli
