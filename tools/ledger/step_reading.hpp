// SPDX-License-Identifier: Apache-2.0
//
// Step reading: what the step spans of a job are. They may enclose the other phases, or be a phase beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/depths.hpp"
#include "model/job_spans.hpp"

namespace cep::tool {

/// Whether they overlap, and neither contains the other.
[[nodiscard]] inline bool cross(const Interval& a, const Interval& b) {
    const bool overlap = a.begin_ns + tolerance_ns < b.end_ns && b.begin_ns + tolerance_ns < a.end_ns;
    return overlap && !a.contains(b, tolerance_ns) && !b.contains(a, tolerance_ns);
}

struct StepReading {
    std::string step_phase;                     // the outermost step spans; "" where there are none
    std::vector<std::string> of_other_threads;  // evaluations that other spans begin or end in: they enclose nothing
    bool encloses = true;                       // phases are inside of them; else they are a phase of compute
    /// For rows without starts: what a step would take in the other reading.
    std::optional<double> other_ms;
};

[[nodiscard]] StepReading read_steps(const Job& job, const JobSpans& spans);

}  // namespace cep::tool
