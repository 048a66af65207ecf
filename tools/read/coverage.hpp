// SPDX-License-Identifier: Apache-2.0
//
// Coverage: what of the job the inputs hold. Ranks seen and missing, files and rows that could not be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/members.hpp"
#include "base/number_ranges.hpp"
#include "read/file_reader.hpp"
#include "read/filter.hpp"
#include "read/inputs.hpp"

namespace cep::tool {

/// A piece of damage for people to look at.
struct LocatedDamage {
    std::string path;
    std::uint64_t line = 0;
    std::string why;
};

/// Sums over the reports of all files, and the first pieces of damage. Merging the counts of parts in any order gives
/// the counts of the whole.
struct InputCounts {
    static constexpr std::size_t max_shown = 5;

    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::uint64_t rows = 0;
    std::uint64_t truncated_files = 0;
    std::uint64_t unreadable_files = 0;
    std::uint64_t repeated_files = 0;
    std::uint64_t skipped_rows = 0;
    std::uint64_t damages = 0;            // located pieces of damage, shown or not
    std::vector<LocatedDamage> shown;     // the first max_shown in the order of find_inputs()
    std::vector<std::string> unreadable;  // "file: why"

    void add(const InputSet& set);
    void add(const FileReport& report);
    /// An input that cannot be used: "file: why".
    void add_unreadable(std::string why);
    void merge(const InputCounts& other);
    [[nodiscard]] bool complete() const { return truncated_files + unreadable_files + skipped_rows + damages == 0; }
};

/// The counts, with their keys in a partial summary.
inline constexpr std::tuple input_keys = {
    member("files", &InputCounts::files),
    member("bytes", &InputCounts::bytes),
    member("rows", &InputCounts::rows),
    member("truncated_files", &InputCounts::truncated_files),
    member("unreadable_files", &InputCounts::unreadable_files),
    member("repeated_files", &InputCounts::repeated_files),
    member("skipped_rows", &InputCounts::skipped_rows),
    member("damages", &InputCounts::damages),
};

struct Coverage {
    std::uint64_t ranks_seen = 0;
    std::optional<std::uint64_t> ranks_expected;
    std::vector<std::int64_t> missing_ranks;
};

/// Which ranks a job has, from its run rows, and which of them were seen.
struct CoverageCollector {
    NumberRanges seen;
    NumberRanges listed;        // the ranks that the profiler was switched on for; empty: all
    bool any_unlisted = false;  // a run that recorded all ranks
    std::int64_t world_size = 0;

    /// Takes a row that has a rank.
    void take(const Row& row) {
        if (row.type == RowType::run) saw_run(*row.run);
        if (row.rank != last_rank_) seen.insert(*row.rank);
        last_rank_ = row.rank;
    }
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

/// Says on standard error what the inputs lacked, where, and which ranks are missing. Says nothing about good inputs.
void report_inputs(std::string_view command, const InputCounts& inputs, const Coverage& coverage);

}  // namespace cep::tool
