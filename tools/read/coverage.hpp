// SPDX-License-Identifier: Apache-2.0
//
// Coverage: what of the job the inputs hold. Ranks seen and missing, files and rows that could not be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "read/filter.hpp"
#include "read/run_info.hpp"

namespace cep::tool {

struct FileReport;
struct InputSet;
struct Row;

/// A piece of damage for people to look at.
struct LocatedDamage {
    std::string path;
    std::uint64_t line = 0;
    std::string why;
};

/// A run of the trainer, of which the inputs have rows.
struct InputRun {
    std::string name;              // that chooses it
    std::vector<std::string> ids;  // run_id of its rows: one, or one for each host or rank
    std::uint64_t ranks = 0;
    bool has_run_rows = true;
    std::optional<std::int64_t> start_unix_ns;  // of its first start
    std::int64_t last_start_ns = INT64_MIN;
    std::optional<std::int64_t> first_step;
};

/// "run-a (4 ranks, started 2025-11-21 04:13:20 UTC)".
[[nodiscard]] std::string describe_run(const InputRun& run);

/// Sums over the reports of all files, and the first pieces of damage.
struct InputCounts {
    static constexpr std::size_t max_shown = 5;
    static constexpr std::size_t max_other_runs = 100;

    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::uint64_t rows = 0;
    std::uint64_t truncated_files = 0;
    std::uint64_t unreadable_files = 0;
    std::uint64_t repeated_files = 0;
    std::uint64_t skipped_rows = 0;
    std::uint64_t damages = 0;            // located pieces of damage, shown or not
    std::vector<LocatedDamage> shown;     // the first max_shown
    std::vector<std::string> unreadable;  // "file: why"
    std::string run;                      // the one that was read, where the inputs have others
    std::uint64_t runs_left_out = 0;
    std::vector<InputRun> other_runs;  // that are left out, the latest first; at most max_other_runs

    void add(const InputSet& set);
    /// Files come in the order of find_inputs().
    void add(const FileReport& report);
    [[nodiscard]] bool complete() const { return truncated_files + unreadable_files + skipped_rows + damages == 0; }
};

struct Coverage {
    std::uint64_t ranks_seen = 0;
    std::optional<std::uint64_t> ranks_expected;
    std::vector<std::int64_t> missing_ranks;
    bool leaves_out_ranks = false;  // the job has more, which were not asked for

    /// Whether no rank of the job can be one that was not looked at.
    [[nodiscard]] bool is_whole() const {
        return !leaves_out_ranks && ranks_seen >= ranks_expected.value_or(ranks_seen);
    }
};

/// Which ranks a job has, from its run rows, and which of them were seen.
struct CoverageCollector {
    NumberRanges seen;
    NumberRanges listed;        // the ranks that the profiler was switched on for; empty: all
    bool any_unlisted = false;  // a run that recorded all ranks
    std::int64_t world_size = 0;

    /// Takes a row that has a rank.
    void take(const Row& row);
    void saw_run(const RunInfo& run);
    void merge(const CoverageCollector& other);
    /// Ranks that the filter leaves out are neither expected nor missing.
    [[nodiscard]] Coverage finish(const Filter& filter) const;

  private:
    std::optional<std::int64_t> last_rank_;  // taken
};

/// "8 ranks"; with ranks missing "7 of 8 ranks".
[[nodiscard]] std::string describe_ranks(const Coverage& coverage);

/// What is wrong with the inputs in one line ("1,021 of 1,024 ranks, 3 files cut off, 17 rows skipped"); "" for
/// nothing.
[[nodiscard]] std::string describe_gaps(const InputCounts& inputs, const Coverage& coverage);

/// Which runs are left out, and how to choose one; "" for none.
[[nodiscard]] std::string describe_other_runs(const InputCounts& inputs, std::string_view option = "--run");

/// Says on standard error which runs are left out, what the inputs lacked, where, and which ranks are missing. Says
/// nothing about good inputs.
void report_inputs(std::string_view command, const InputCounts& inputs, const Coverage& coverage,
                   std::string_view run_option = "--run");

}  // namespace cep::tool
