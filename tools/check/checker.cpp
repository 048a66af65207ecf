// SPDX-License-Identifier: Apache-2.0
#include "check/checker.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::tool {

void JobCheck::add(FileCheck&& file, FileReport report) {
    const std::string path = report.path;
    for (const auto& [rank, state] : file.ranks_) {
        coverage_.saw_rank(rank);
        const std::vector<RunInfo>& runs = file.tracker_.runs(rank);
        for (const RunInfo& run : runs) note_run(run, rank, path);
        for (const auto& [index, first] : state.first_starts) {
            if (index == RunTracker::no_run) continue;
            const RunInfo& run = runs[static_cast<std::size_t>(index)];
            first_starts_[{run.run_id, run.attempt, first.step}].emplace_back(first.start_ns, rank);
        }
        if (runs.empty()) files_of_runs_[{"", 0, rank}].push_back(path);
        for (const auto& [run, stats] : state.stats) loss_.add(stats);
        for (const auto& [run, steps] : state.steps) {
            const auto last = last_steps_.try_emplace(rank, *steps.rbegin()).first;
            last->second = std::max(last->second, *steps.rbegin());
        }
    }
    files_.push_back(file.finish(std::move(report)));
}

void JobCheck::note_run(const RunInfo& run, std::int64_t rank, const std::string& path) {
    coverage_.saw_run(run);
    files_of_runs_[{run.run_id, run.attempt, rank}].push_back(path);
    RanksOfRun& known = ranks_of_runs_[run.run_id];
    known.start_unix_ns = std::max(known.start_unix_ns, run.start_unix_ns.value_or(INT64_MIN));
    known.ranks.insert(rank);
}

void JobCheck::find_missing_ranks(CheckResult& result) const {
    const std::vector<std::int64_t>& missing = result.coverage.missing_ranks;
    if (missing.empty()) return;
    result.findings.push_back(
        {Severity::incomplete, "missing_ranks",
         fmt::format("missing {} {} of {}", missing.size() == 1 ? "rank" : "ranks", format_ranges(missing),
                     format_count(result.coverage.ranks_expected.value_or(0))),
         0});
}

void JobCheck::find_repeated_ranks(CheckResult& result) const {
    std::uint64_t repeated = 0;
    std::string example;
    for (const auto& [run, paths] : files_of_runs_) {
        if (paths.size() < 2) continue;
        if (repeated++ == 0)
            example = fmt::format("rank {}: {} and {}", std::get<2>(run), printable(paths[0]), printable(paths[1]));
    }
    if (repeated == 0) return;
    std::string message = "the same run in two files: " + example;
    if (repeated > 1) message += fmt::format(", and {} more", format_count(repeated - 1));
    result.findings.push_back({Severity::note, "repeated_rank", message, 0});
}

void JobCheck::find_early_ends(CheckResult& result) const {
    std::int64_t last_step = INT64_MIN;
    for (const auto& [rank, step] : last_steps_) last_step = std::max(last_step, step);
    std::vector<std::int64_t> early;
    std::int64_t earliest = last_step;
    for (const auto& [rank, step] : last_steps_) {
        if (step < last_step) early.push_back(rank);
        earliest = std::min(earliest, step);
    }
    if (early.empty()) return;
    result.findings.push_back(
        {Severity::note, "early_end",
         fmt::format("{} before step {}: {} (the first at step {})", early.size() == 1 ? "a rank ends" : "ranks end",
                     format_integer(last_step), format_ranges(early), format_integer(earliest)),
         0});
}

// A smaller job in the directory of a larger one leaves files of ranks that it does not have.
void JobCheck::find_left_ranks(CheckResult& result) const {
    if (ranks_of_runs_.size() < 2) return;
    const auto latest =
        std::max_element(ranks_of_runs_.begin(), ranks_of_runs_.end(),
                         [](const auto& a, const auto& b) { return a.second.start_unix_ns < b.second.start_unix_ns; });
    for (const auto& [run_id, run] : ranks_of_runs_) {
        std::vector<std::int64_t> left;
        std::set_difference(run.ranks.begin(), run.ranks.end(), latest->second.ranks.begin(),
                            latest->second.ranks.end(), std::back_inserter(left));
        if (left.empty()) continue;
        result.findings.push_back(
            {Severity::note, "left_ranks",
             fmt::format("{} {} of run {} that the latest run {} does not have", left.size() == 1 ? "rank" : "ranks",
                         format_ranges(left), printable(run_id), printable(latest->first)),
             0});
    }
}

// Ranks of a job do the same step at the same time, give or take the time that a collective waits for the others.
void JobCheck::find_clocks_apart(CheckResult& result) const {
    constexpr double longest_wait_ms = 600'000;
    for (const auto& [step_of_run, starts] : first_starts_) {
        std::vector<StartOfRank> ordered = starts;
        std::sort(ordered.begin(), ordered.end());
        const std::int64_t median_ns = ordered[(ordered.size() - 1) / 2].first;
        std::vector<std::int64_t> apart;
        double furthest_ms = 0;
        for (const auto& [start_ns, rank] : ordered) {
            const double distance_ms = std::abs(static_cast<double>(start_ns) - static_cast<double>(median_ns)) * 1e-6;
            if (distance_ms <= longest_wait_ms) continue;
            apart.push_back(rank);
            furthest_ms = std::max(furthest_ms, distance_ms);
        }
        if (apart.empty()) continue;
        std::sort(apart.begin(), apart.end());
        result.findings.push_back(
            {Severity::note, "clocks_apart",
             fmt::format("{} {} of run {} attempt {} up to {} from the others in step {}: the "
                         "clocks of their hosts differ",
                         apart.size() == 1 ? "rank" : "ranks", format_ranges(apart),
                         printable(std::get<0>(step_of_run)), std::get<1>(step_of_run), format_duration_ms(furthest_ms),
                         format_integer(std::get<2>(step_of_run))),
             0});
    }
}

CheckResult JobCheck::finish(const InputCounts& inputs) {
    CheckResult result;
    result.inputs = inputs;
    result.coverage = coverage_.finish({});
    result.loss = loss_;
    for (const std::string& path : inputs.unreadable) {
        const auto known = std::find_if(files_.begin(), files_.end(),
                                        [&](const FileVerdict& file) { return file.report.unreadable == path; });
        if (known == files_.end()) result.findings.push_back({Severity::damaged, "unreadable", path, 0});
    }
    find_missing_ranks(result);
    find_repeated_ranks(result);
    find_early_ends(result);
    find_left_ranks(result);
    find_clocks_apart(result);
    result.files = std::move(files_);
    for (const FileVerdict& file : result.files) result.severity = std::max(result.severity, file.severity);
    for (const Finding& finding : result.findings) result.severity = std::max(result.severity, finding.severity);
    return result;
}

}  // namespace cep::tool
