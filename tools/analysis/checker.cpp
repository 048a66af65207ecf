// SPDX-License-Identifier: Apache-2.0
#include "checker.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "units.hpp"

namespace cep::analysis {

void JobCheck::add(FileCheck&& file, FileReport report) {
    const std::string path = report.path;
    for (const auto& [rank, state] : file.ranks_) {
        coverage_.saw_rank(rank);
        const std::vector<RunInfo>& runs = file.tracker_.runs(rank);
        for (const RunInfo& run : runs) {
            coverage_.saw_run(run);
            files_of_runs_[{run.run_id, run.attempt, rank}].push_back(path);
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
    result.files = std::move(files_);
    for (const FileVerdict& file : result.files) result.severity = std::max(result.severity, file.severity);
    for (const Finding& finding : result.findings) result.severity = std::max(result.severity, finding.severity);
    return result;
}

}  // namespace cep::analysis
