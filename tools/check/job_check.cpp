// SPDX-License-Identifier: Apache-2.0
#include "check/job_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.hpp"

namespace cep::tool {
namespace {

/// The end of the items from `begin` on that have the same key.
template <typename Iterator, typename Key>
Iterator end_of_group(Iterator begin, Iterator end, const Key& key) {
    return std::find_if(begin, end, [&](const auto& item) { return key(item) != key(*begin); });
}

}  // namespace

void JobCheck::add(FileCheck&& file, FileReport report) {
    for (const auto& [rank, state] : file.ranks_) file.in_order_.emplace_back(rank, &state);
    std::sort(file.in_order_.begin(), file.in_order_.end());
    coverage_.merge(file.coverage_);
    for (const FileCheck::RankOfFile& of : file.in_order_) add_rank(of, file);
    files_.push_back(file.finish(std::move(report)));
}

void JobCheck::add_rank(const FileCheck::RankOfFile& of, const FileCheck& file) {
    const auto& [rank, state] = of;
    coverage_.seen.insert(rank);
    const auto file_index = static_cast<std::uint32_t>(files_.size());
    const std::int64_t number = rank;  // clang 14 captures no structured binding
    file.for_each_start(of, [&](const RunStart& start, const FileCheck::RunState& recorded) {
        has_too_many_runs_ |= runs_.size() >= max_runs;
        if (has_too_many_runs_) return;
        const AttemptKey key{*run_ids_.emplace(start.run_id).first, start.attempt};
        runs_.push_back({key, number, file_index, true});
        if (recorded.first_start_ns)
            first_starts_.push_back({key, recorded.first_step, *recorded.first_start_ns, number});
    });
    if (!state->has_run_rows()) runs_.push_back({{"", 0}, rank, file_index, false});
    std::optional<std::int64_t> last_step;
    for (const FileCheck::RunState& run : state->runs)
        if (const auto& steps = run.steps.steps(); !steps.empty())
            last_step = std::max(last_step.value_or(INT64_MIN), steps.back());
    if (last_step) last_steps_.emplace_back(rank, *last_step);
    if (file.stride_changes_) longest_stride_ = std::max(longest_stride_, file.stride_changes_->longest);
}

void JobCheck::find_unreadable(const InputCounts& inputs) {
    std::unordered_set<std::string_view> known;
    for (const FileVerdict& file : files_) known.insert(file.report.unreadable);
    for (const std::string& why : inputs.unreadable)
        if (!known.contains(why)) findings_.add(Severity::damaged, "unreadable", why);
}

void JobCheck::find_missing_ranks(const Coverage& coverage) {
    const std::vector<std::int64_t>& missing = coverage.missing_ranks;
    if (missing.empty()) return;
    findings_.add(Severity::incomplete, "missing_ranks",
                  fmt::format("missing {} of {}", format_numbers("rank", missing),
                              format_count(coverage.ranks_expected.value_or(0))));
}

void JobCheck::find_repeated_ranks() {
    const auto key = [](const RunOfRank& run) { return std::pair(run.run, run.rank); };
    std::uint64_t repeated = 0;
    std::string example;
    for (auto begin = runs_.begin(); begin != runs_.end();) {
        const auto end = end_of_group(begin, runs_.end(), key);
        if (end - begin > 1 && repeated++ == 0)
            example = fmt::format("rank {}: {} and {}", begin->rank, files_[begin->file].report.path,
                                  files_[(begin + 1)->file].report.path);
        begin = end;
    }
    if (repeated == 0) return;
    std::string message = "the same run in two files: " + example;
    if (repeated > 1) message += fmt::format(", and {} more", format_count(repeated - 1));
    findings_.note("repeated_rank", std::move(message));
}

void JobCheck::find_early_ends() {
    std::sort(last_steps_.begin(), last_steps_.end());
    std::int64_t last_step = INT64_MIN;
    for (const auto& [rank, step] : last_steps_) last_step = std::max(last_step, step);
    std::vector<std::int64_t> early;
    std::int64_t earliest = last_step;
    for (std::size_t i = 0; i < last_steps_.size(); ++i) {
        const auto& [rank, step] = last_steps_[i];
        if (i + 1 < last_steps_.size() && last_steps_[i + 1].first == rank) continue;  // of a file with earlier steps
        // A rank whose stride was lengthened has no row of the last steps.
        if (step_difference(step, last_step) < static_cast<std::uint64_t>(longest_stride_)) continue;
        early.push_back(rank);
        earliest = std::min(earliest, step);
    }
    if (early.empty()) return;
    findings_.note("early_end", fmt::format("{} before step {}: {} (the first at step {})",
                                            early.size() == 1 ? "a rank ends" : "ranks end", format_integer(last_step),
                                            format_ranges(early), format_integer(earliest)));
}

// Ranks of a job do the same step at the same time, give or take the time that a collective waits for the others.
void JobCheck::find_clocks_apart() {
    const auto key = [](const FirstStart& start) { return std::pair(start.run, start.step); };
    for (auto begin = first_starts_.begin(); begin != first_starts_.end();) {
        const auto end = end_of_group(begin, first_starts_.end(), key);
        if (end - begin > 1) check_starts({begin, end});
        begin = end;
    }
}

void JobCheck::check_starts(const std::vector<FirstStart>& starts) {
    constexpr double longest_wait_ms = 600'000;
    const std::int64_t median_ns = starts[(starts.size() - 1) / 2].start_ns;
    std::vector<std::int64_t> apart;
    double furthest_ms = 0;
    for (const FirstStart& start : starts) {
        const double distance_ms =
            std::abs(static_cast<double>(start.start_ns) - static_cast<double>(median_ns)) * 1e-6;
        if (distance_ms <= longest_wait_ms) continue;
        apart.push_back(start.rank);
        furthest_ms = std::max(furthest_ms, distance_ms);
    }
    if (apart.empty()) return;
    std::sort(apart.begin(), apart.end());
    const FirstStart& one = starts.front();
    findings_.note("clocks_apart",
                   fmt::format("{} of run {} attempt {} up to {} from the others in step {}: the clocks of their "
                               "hosts differ",
                               format_numbers("rank", apart), one.run.run_id, one.run.attempt,
                               format_duration_ms(furthest_ms), format_integer(one.step)));
}

CheckResult JobCheck::finish(const InputCounts& inputs) {
    CheckResult result;
    result.inputs = inputs;
    result.coverage = coverage_.finish({});
    std::sort(runs_.begin(), runs_.end());
    std::sort(first_starts_.begin(), first_starts_.end());
    find_unreadable(inputs);
    find_missing_ranks(result.coverage);
    if (has_too_many_runs_)
        findings_.note("too_many_runs", fmt::format("only the first {} runs of ranks are compared with each other",
                                                    format_count(max_runs)));
    find_repeated_ranks();
    find_early_ends();
    find_clocks_apart();
    result.findings = findings_.finish();
    result.files = std::move(files_);
    result.severity = worst_of(result.findings);
    for (const FileVerdict& file : result.files) result.severity = std::max(result.severity, file.severity);
    return result;
}

}  // namespace cep::tool
