// SPDX-License-Identifier: Apache-2.0
//
// Job check: what `cep check` finds when it puts the files of a job together.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "check/file_check.hpp"
#include "read/coverage.hpp"
#include "show/document.hpp"

namespace cep::tool {

struct CheckResult {
    InputCounts inputs;
    Coverage coverage;
    Severity severity = Severity::fine;
    std::vector<FileVerdict> files;
    std::vector<Remark> findings;  // about the job, not one file
};

class JobCheck {
  public:
    static constexpr std::size_t max_runs = std::size_t{1} << 20;  // of ranks, that are compared between files

    void add(FileCheck&& file, FileReport report);
    /// Call once.
    [[nodiscard]] CheckResult finish(const InputCounts& inputs);

  private:
    struct RunOfRank {
        AttemptKey run;  // its id in run_ids_
        std::int64_t rank = 0;
        std::uint32_t file = 0;  // index into files_
        bool has_run_row = true;

        friend auto operator<=>(const RunOfRank&, const RunOfRank&) = default;
    };
    /// The first span of a rank in a run.
    struct FirstStart {
        AttemptKey run;
        std::int64_t step = 0;
        std::int64_t start_ns = 0;
        std::int64_t rank = 0;

        friend auto operator<=>(const FirstStart&, const FirstStart&) = default;
    };
    void add_rank(const FileCheck::RankOfFile& of, const FileCheck& file);
    void find_unreadable(const InputCounts& inputs);
    void find_missing_ranks(const Coverage& coverage);
    void find_repeated_ranks();
    void find_early_ends();
    void find_clocks_apart();
    void check_starts(const std::vector<FirstStart>& starts);

    CoverageCollector coverage_;
    std::vector<FileVerdict> files_;
    std::unordered_set<std::string> run_ids_;
    std::vector<RunOfRank> runs_;
    std::vector<FirstStart> first_starts_;
    std::vector<std::pair<std::int64_t, std::int64_t>> last_steps_;  // rank, its last step in a file
    std::int64_t longest_stride_ = 1;                                // that the library made; 1: none
    bool has_too_many_runs_ = false;
    Remarks findings_;
};

/// JSON has schema cep.check/1. CSV has a line for each file.
[[nodiscard]] Document make_document(CheckResult result);

}  // namespace cep::tool
