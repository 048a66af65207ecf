// SPDX-License-Identifier: Apache-2.0
//
// Job parts: what the inputs of a job hold, joined from as many as there are.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/phase_series.hpp"
#include "read/coverage.hpp"
#include "read/open_spans.hpp"

namespace cep::tool {

struct MarkCount {
    std::set<std::int64_t> ranks;
    std::set<std::int64_t> steps;
    std::uint64_t count = 0;
};

/// Everything but the counts of the inputs. Joined parts hold the same, in order(), whatever was joined first.
struct JobParts {
    RankSeries ranks;
    std::vector<OpenSpan> open_spans;
    std::map<std::string, MarkCount> marks;
    CoverageCollector coverage;

    void merge(JobParts&& other);
    /// Moves every duration into a histogram.
    void fold();
    void order();
    [[nodiscard]] std::uint64_t samples() const;
    [[nodiscard]] bool has_histograms() const;
};

}  // namespace cep::tool
