// SPDX-License-Identifier: Apache-2.0
#include "read/coverage.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/core.h>

#include "base/say.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "read/file_report.hpp"
#include "read/inputs.hpp"

namespace cep::tool {
namespace {

// A larger world_size is taken for damage: missing ranks are not listed.
constexpr std::int64_t max_world_size = std::int64_t{1} << 22;

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
    for (const Damage& damage : report.damages)
        if (shown.size() < max_shown) shown.push_back({report.path, damage.line, damage.why});
    if (report.unreadable.empty()) {
        ++files;
        return;
    }
    ++unreadable_files;
    unreadable.push_back(report.unreadable);
}

void CoverageCollector::take(const Row& row) {
    if (row.type == RowType::run) saw_run(*row.run);
    if (row.rank != last_rank_) seen.insert(*row.rank);
    last_rank_ = row.rank;
}

void CoverageCollector::saw_run(const RunInfo& run) {
    seen.insert(run.rank);
    if (run.world_size) world_size = std::max(world_size, *run.world_size);
    if (run.listed_ranks) {
        for (const std::int64_t rank : *run.listed_ranks) listed.insert(rank);
    } else {
        any_unlisted = true;
    }
}

void CoverageCollector::merge(const CoverageCollector& other) {
    seen.merge(other.seen);
    listed.merge(other.listed);
    any_unlisted |= other.any_unlisted;
    world_size = std::max(world_size, other.world_size);
}

Coverage CoverageCollector::finish(const Filter& filter) const {
    Coverage coverage;
    coverage.ranks_seen = seen.size();
    const std::int64_t highest = seen.empty() ? -1 : seen.highest();
    const std::int64_t ranks = world_size > 0 ? world_size : highest + 1;
    coverage.leaves_out_ranks = world_size <= 0 && filter.has_ranks();
    if (ranks <= 0 || ranks > max_world_size) return coverage;
    std::uint64_t expected = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const bool recorded = any_unlisted || listed.empty() || listed.contains(rank);
        if (!recorded && !seen.contains(rank)) continue;
        if (!filter.accepts_rank(rank)) {
            coverage.leaves_out_ranks = true;
            continue;
        }
        ++expected;
        if (!seen.contains(rank)) coverage.missing_ranks.push_back(rank);
    }
    coverage.ranks_expected = expected;
    return coverage;
}

std::string describe_ranks(const Coverage& coverage) {
    if (coverage.missing_ranks.empty()) return format_plural(coverage.ranks_seen, "rank");
    return fmt::format("{} of {} ranks", format_count(coverage.ranks_seen),
                       format_count(coverage.ranks_expected.value_or(0)));
}

std::string describe_gaps(const InputCounts& inputs, const Coverage& coverage) {
    std::vector<std::string> gaps;
    if (!coverage.missing_ranks.empty()) gaps.push_back(describe_ranks(coverage));
    if (inputs.unreadable_files > 0) gaps.push_back(format_plural(inputs.unreadable_files, "input") + " unreadable");
    if (inputs.truncated_files > 0) gaps.push_back(format_plural(inputs.truncated_files, "file") + " cut off");
    if (inputs.skipped_rows > 0) gaps.push_back(format_plural(inputs.skipped_rows, "row") + " skipped");
    return gaps.empty() && inputs.damages > 0 ? "damage between rows" : join(gaps, ", ");
}

std::string describe_run(const InputRun& run) {
    std::string text = fmt::format("{} ({}", run.has_run_rows ? printable(run.name) : "rows of no run",
                                   format_plural(run.ranks, "rank"));
    if (run.start_unix_ns) {
        const auto seconds = static_cast<std::time_t>(*run.start_unix_ns / 1'000'000'000);
        std::tm time{};
        std::array<char, 32> written{};
        gmtime_r(&seconds, &time);
        std::strftime(written.data(), written.size(), "%Y-%m-%d %H:%M:%S", &time);
        text += fmt::format(", started {} UTC", written.data());
    }
    return text + ")";
}

std::string describe_other_runs(const InputCounts& inputs, std::string_view option) {
    constexpr std::size_t max_named = 3;
    if (inputs.runs_left_out == 0) return "";
    std::string text;
    for (std::size_t i = 0; i < std::min(inputs.other_runs.size(), max_named); ++i)
        text += (i == 0 ? "" : ", ") + describe_run(inputs.other_runs[i]);
    if (inputs.runs_left_out > max_named)
        text += fmt::format(" and {} more", format_count(inputs.runs_left_out - max_named));
    return fmt::format("run {}; left out: {}; {} {} chooses {}", printable(inputs.run), text, option,
                       printable(inputs.other_runs.front().name),
                       inputs.runs_left_out == 1 ? "it" : "the first of these");
}

void report_inputs(std::string_view command, const InputCounts& inputs, const Coverage& coverage,
                   std::string_view run_option) {
    if (inputs.runs_left_out > 0) say("cep {}: {}\n", command, describe_other_runs(inputs, run_option));
    const std::string gaps = describe_gaps(inputs, coverage);
    if (!gaps.empty()) say("cep {}: {}\n", command, gaps);
    if (!coverage.missing_ranks.empty()) say("  missing {}\n", format_numbers("rank", coverage.missing_ranks));
    std::vector<std::string> unreadable = inputs.unreadable;
    std::sort(unreadable.begin(), unreadable.end());
    for (std::size_t i = 0; i < std::min(unreadable.size(), InputCounts::max_shown); ++i)
        say("  {}\n", printable(unreadable[i]));
    for (const LocatedDamage& damage : inputs.shown)
        say("  {}:{}: {}\n", printable(damage.path), damage.line, damage.why);
    if (inputs.damages > inputs.shown.size())
        say("  … and {} more; cep check lists them\n", format_count(inputs.damages - inputs.shown.size()));
    if (inputs.repeated_files > 0)
        say("cep {}: {} named more than once, read once\n", command, format_plural(inputs.repeated_files, "file"));
}

}  // namespace cep::tool
