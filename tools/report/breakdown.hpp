// SPDX-License-Identifier: Apache-2.0
//
// Breakdown: what the mean step of a few ranks consists of.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/job_view.hpp"

namespace cep::report {

struct BreakdownPart {
    std::string name;
    std::optional<int> color;  // of a phase; none for what is no phase
    std::string style;         // class of its bars
};

struct BreakdownBar {
    std::string label;
    std::size_t rank = 0;  // index
    double step_ms = 0;
    std::vector<double> ms;  // by part; they sum to step_ms
};

struct Breakdown {
    std::string empty;  // why there is none; else ""
    std::vector<BreakdownPart> parts;
    std::vector<BreakdownBar> bars;
};

/// `table`: nullptr where the job has none, which `why` explains. Ranks are chosen by JobView::slowness_ms, and means
/// are over the steps that all of them recorded.
[[nodiscard]] Breakdown find_breakdown(const JobView& view, const tool::JobTable* table, const std::string& why);

}  // namespace cep::report
