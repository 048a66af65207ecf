// SPDX-License-Identifier: Apache-2.0
//
// cep merge
#include <memory>

#include "base/output.hpp"
#include "base/progress.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"
#include "merge/merger.hpp"
#include "merge/row_sorter.hpp"
#include "merge/spill_file.hpp"
#include "read/read_all.hpp"
#include "read/rows_only.hpp"

namespace cep::cli {
namespace {

using namespace tool;

struct MergeCommand {
    InputOptions input;
    FilterOptions filter;
    std::string out;
    std::string attempt = "all";
    std::uint64_t memory_mib = RowSorter::default_memory_bytes >> 20;
    bool force = false;

    Status run() const {
        const MergeOptions options{filter.filter(), AttemptChoice::parse(attempt)};
        const InputSet set = input.find();
        if (!force) refuse_input_as_output(set, out, "; --force replaces it");
        Output output(out);
        RowSorter sorter(memory_mib << 20, spill_directory_for(out), input.reading().thread_count());
        RunIndex runs;
        CoverageCollector coverage;
        std::uint64_t text_bytes = 0;
        const InputCounts counts = read_all(
            set, input.reading(),
            [&](const InputFile& file, std::size_t index) {
                return std::make_unique<RowsOnly<FileMerge>>(file.path, options, sorter, runs, file, index);
            },
            [&](FileMerge&& file, FileReport&&) {
                coverage.merge(file.coverage());
                text_bytes += file.text_bytes();
            });
        const Coverage covered = coverage.finish(options.filter);
        const Status status = report_status("merge", counts, covered, input.strict);
        if (status == Status::nothing_readable) return status;
        Progress progress(text_bytes, "written");
        RowWriter writer(output, progress, runs, options.attempt.mode == AttemptChoice::Mode::last);
        sorter.finish([&](const RowEntry& row, std::string_view text) { writer.take(row, text); });
        writer.finish();
        output.close();
        return status;
    }

    void add_to(CLI::App& merge) {
        input.add_to(merge);
        merge.add_option("-o,--output", out, "Write to OUT (default: standard output); .gz and .zst compress")
            ->option_text("OUT");
        merge.add_flag("--force", force, "Replace OUT even if it is one of the inputs or has the name of a rank file");
        filter.add_to(merge);
        merge.add_option("--attempt", attempt, "Rows of which attempts: all, last, or a number (default all)")
            ->option_text("WHICH");
        merge.add_option("--memory-mib", memory_mib, "Sort in this much memory, the rest on disk (default 256)")
            ->check(whole_number_from(std::uint64_t{1}, std::uint64_t{1} << 20))
            ->option_text("MIB");
        set_examples(merge,
                     "  cep merge -o job.jsonl output/cuda_event_profiler\n"
                     "  cep merge --steps 1000:2000 --ranks 0,8-15 output | gzip > part.jsonl.gz\n"
                     "  cep merge -o job.jsonl.zst 'run*/cuda_events_rank_*.jsonl.gz'");
    }
};

}  // namespace

void add_merge(CLI::App& app, Command& run) {
    add_command<MergeCommand>(app, run, "merge", "One JSONL file of all ranks, ordered by step, start and rank");
}

}  // namespace cep::cli
