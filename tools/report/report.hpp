// SPDX-License-Identifier: Apache-2.0
//
// Report: a job as one page of HTML that needs no other file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/comm_report.hpp"
#include "compare/comparison.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::report {

inline constexpr std::size_t default_max_bytes = std::size_t{8} << 20;
inline constexpr std::size_t most_table_cells = std::size_t{1} << 23;  // ranks times steps of the job's table

/// What the timeline shows. Empty: what the verdict blames, and a usual rank and step beside it.
struct TimelineChoice {
    std::vector<std::int64_t> ranks;
    std::vector<std::int64_t> steps;
};

struct ReportInputs {
    const tool::Job& job;
    const tool::Summary& summary;
    const tool::Verdict& verdict;
    const tool::JobTable* table = nullptr;            // nullptr: own work and waiting of ranks are not known
    const comm::CommReport* comm = nullptr;           // nullptr: no communication is timed
    const compare::Comparison* comparison = nullptr;  // nullptr: one job is shown
    TimelineChoice timeline{};
    std::size_t max_bytes = default_max_bytes;
};

struct Report {
    std::string html;
    std::vector<std::string> left_out;  // sentences: what was binned or left out for its size
};

/// Throws UsageError where even the page without data is larger than max_bytes.
[[nodiscard]] Report make_report(const ReportInputs& inputs);

}  // namespace cep::report
