// SPDX-License-Identifier: Apache-2.0
#include "coverage.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "units.hpp"

namespace cep::analysis {
namespace {

// A world larger than this is a damaged number, not a job: its ranks are not listed one by one.
constexpr std::int64_t max_world_size = std::int64_t{1} << 22;

void append(std::string& text, const std::string& part) {
    text += (text.empty() ? "" : ", ") + part;
}

}  // namespace

void InputCounts::add(const InputSet& set) {
    repeated_files += set.repeated_files;
    unreadable_files += set.unusable.size();
    unreadable.insert(unreadable.end(), set.unusable.begin(), set.unusable.end());
}

void InputCounts::add(const FileReport& report) {
    bytes += report.bytes;
    rows += report.rows;
    skipped_rows += report.skipped_rows;
    truncated_files += report.cut_off;
    damages += report.damage_count;
    for (const Damage& damage : report.damages) {
        if (shown.size() == max_shown) break;
        shown.push_back(fmt::format("{}:{}: {}", printable(report.path), damage.line, damage.why));
    }
    if (report.unreadable.empty()) {
        ++files;
    } else {
        ++unreadable_files;
        unreadable.push_back(report.unreadable);
    }
}

void CoverageCollector::saw_run(const RunInfo& run) {
    saw_rank(run.rank);
    if (run.world_size) world_size_ = std::max(world_size_, *run.world_size);
    if (run.listed_ranks) {
        listed_.insert(run.listed_ranks->begin(), run.listed_ranks->end());
    } else {
        any_unlisted_ = true;
    }
}

void CoverageCollector::merge(const CoverageCollector& other) {
    seen_.insert(other.seen_.begin(), other.seen_.end());
    listed_.insert(other.listed_.begin(), other.listed_.end());
    any_unlisted_ |= other.any_unlisted_;
    world_size_ = std::max(world_size_, other.world_size_);
}

Coverage CoverageCollector::finish(const Filter& filter) const {
    Coverage coverage;
    coverage.ranks_seen = seen_.size();
    const std::int64_t highest = seen_.empty() ? -1 : *seen_.rbegin();
    const std::int64_t world_size = world_size_ > 0 ? world_size_ : highest + 1;
    if (world_size <= 0 || world_size > max_world_size) return coverage;
    std::uint64_t expected = 0;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
        const bool recorded = any_unlisted_ || listed_.empty() || listed_.contains(rank);
        if (!filter.accepts_rank(rank) || !(recorded || seen_.contains(rank))) continue;
        ++expected;
        if (!seen_.contains(rank)) coverage.missing_ranks.push_back(rank);
    }
    coverage.ranks_expected = expected;
    return coverage;
}

std::string describe_gaps(const InputCounts& inputs, const Coverage& coverage) {
    std::string text;
    if (!coverage.missing_ranks.empty())
        append(text, fmt::format("{} of {} ranks", format_count(coverage.ranks_seen),
                                 format_count(coverage.ranks_expected.value_or(0))));
    if (inputs.unreadable_files > 0) append(text, format_plural(inputs.unreadable_files, "input") + " unreadable");
    if (inputs.truncated_files > 0) append(text, format_plural(inputs.truncated_files, "file") + " cut off");
    if (inputs.skipped_rows > 0) append(text, format_plural(inputs.skipped_rows, "row") + " skipped");
    if (text.empty() && inputs.damages > 0) append(text, "damage between rows");
    return text;
}

void report_inputs(std::string_view command, const InputCounts& inputs, const Coverage& coverage) {
    const std::string gaps = describe_gaps(inputs, coverage);
    if (!gaps.empty()) fmt::print(stderr, "cep {}: {}\n", command, gaps);
    if (!coverage.missing_ranks.empty())
        fmt::print(stderr, "  missing {} {}\n", coverage.missing_ranks.size() == 1 ? "rank" : "ranks",
                   format_ranges(coverage.missing_ranks));
    for (std::size_t i = 0; i < std::min(inputs.unreadable.size(), InputCounts::max_shown); ++i)
        fmt::print(stderr, "  {}\n", printable(inputs.unreadable[i]));
    for (const std::string& damage : inputs.shown) fmt::print(stderr, "  {}\n", damage);
    if (inputs.damages > inputs.shown.size())
        fmt::print(stderr, "  … and {} more; cep check lists them\n",
                   format_count(inputs.damages - inputs.shown.size()));
    if (inputs.repeated_files > 0)
        fmt::print(stderr, "cep {}: {} named more than once, read once\n", command,
                   format_plural(inputs.repeated_files, "file"));
}

}  // namespace cep::analysis
