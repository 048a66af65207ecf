// SPDX-License-Identifier: Apache-2.0
//
// Timeline: all spans of a few ranks in a few steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/job_view.hpp"

namespace cep::report {

struct TimelineStep {
    std::int64_t step = 0;
    double length_ms = 0;  // to the last end
};

struct TimelineRank {
    std::size_t rank = 0;  // index
    std::string why;       // "slow", "median", …
};

/// What a span runs on: the host, then streams from first_stream on, then what another clock timed.
inline constexpr std::size_t host_lane = 0;
inline constexpr std::size_t first_stream = 1;
inline constexpr std::size_t other_clock = std::numeric_limits<std::size_t>::max();

struct TimelineSpan {
    std::size_t rank = 0;  // index into Timeline::ranks
    std::size_t lane = 0;
    std::size_t step = 0;   // index into Timeline::steps
    std::size_t phase = 0;  // index into JobView::phases
    std::int64_t start_ns = 0;
    double start_ms = 0;  // from the start of the step
    double duration_ms = 0;
    double ahead_ms = 0;  // of its host's clock, which was set right by so much
    unsigned depth = 0;
    std::size_t join = 0;  // the number of its collective; 0: none
};

struct Timeline {
    static constexpr std::size_t max_spans_a_step = 400;  // of one rank

    std::string empty;  // why there is none; else ""
    std::vector<TimelineStep> steps;
    std::vector<TimelineRank> ranks;
    std::vector<TimelineSpan> spans;
    std::size_t left_out = 0;     // spans, the shortest of steps that have very many
    bool each_from_zero = false;  // clocks of hosts differ by more than a step: each rank begins at 0
    double clocks_apart_ms = 0;   // by which clocks of hosts were set right; 0: they were not
    double clock_error_ms = 0;    // that may be left
};

/// What to show. Empty: what the verdict blames, and a usual rank and step beside it.
struct TimelineChoice {
    std::vector<std::int64_t> ranks;
    std::vector<std::int64_t> steps;
};

/// `table`: nullptr where the job has none.
[[nodiscard]] Timeline find_timeline(const tool::Job& job, const tool::JobTable* table, const JobView& view,
                                     const TimelineChoice& choice);

}  // namespace cep::report
