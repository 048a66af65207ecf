// SPDX-License-Identifier: Apache-2.0
//
// Breakdown: where the time of a step went on a few ranks, by the pieces of the ledger.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.hpp"
#include "report/job_view.hpp"

namespace cep::report {

struct BreakdownPart {
    std::string name;
    std::optional<int> color;  // of kinds of work; none for what has a style of its own
    std::string style;         // class of its bars
};

struct BreakdownBar {
    std::string label;
    std::size_t rank = 0;    // index
    double step_ms = 0;      // all of the rank's time, a step
    std::vector<double> ms;  // by part; they sum to step_ms
};

struct Breakdown {
    std::string empty;  // why there is none; else ""
    std::vector<BreakdownPart> parts;
    std::vector<BreakdownBar> bars;
};

/// Ranks are chosen by JobView::slowness_ms; where that is not known, it is the first.
[[nodiscard]] Breakdown find_breakdown(const JobView& view, const tool::Ledger& ledger);

}  // namespace cep::report
