// SPDX-License-Identifier: Apache-2.0
//
// Job parts: what the inputs of a job hold, joined from as many as there are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "model/phase_series.hpp"
#include "read/coverage.hpp"

namespace cep::tool {

struct MarkCount {
    NumberRanges ranks;
    NumberRanges steps;
    std::uint64_t count = 0;
};

/// Everything but the counts of the inputs. Joined parts hold the same, in order(), whatever was joined first.
struct JobParts {
    RankSeries ranks;
    StepChoice choice;  // of the steps that have samples
    std::vector<OpenSpan> open_spans;
    std::map<std::string, MarkCount> marks;
    CoverageCollector coverage;
    std::uint64_t left_out_ranks = 0;  // beyond SampleBudget::max_ranks
    std::uint64_t left_out_runs = 0;   // of ranks

    /// Both of the same choice of steps.
    void merge(JobParts&& other);
    /// Leaves the samples of fewer steps, and of no fewer than before.
    void thin(StepChoice wanted);
    void order();
};

}  // namespace cep::tool
