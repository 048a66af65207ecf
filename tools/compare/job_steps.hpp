// SPDX-License-Identifier: Apache-2.0
//
// Job steps: one number for each phase in each recorded step, the median over ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/job.hpp"

namespace cep::compare {

/// One phase, in the order of its steps.
struct PhaseSteps {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    std::vector<std::int64_t> steps;
    std::vector<double> durations_ms;  // of each step: of all spans of the phase on a rank, the median over ranks
};

struct JobSteps {
    PhaseSteps step;             // what a whole step took; empty where that is not known
    bool step_is_a_sum = false;  // no spans of whole steps: the sum of the outermost phases
    std::vector<PhaseSteps> phases;
    std::size_t folded_phases = 0;       // that one of them, "other phases", stands for: those with the least time
    std::vector<std::int64_t> recorded;  // all steps, in order
};

/// At most so many phases are compared one by one.
inline constexpr std::size_t max_phases = 1000;

/// Leaves out steps that less than half of a phase's ranks recorded. Throws UsageError where durations are not kept.
[[nodiscard]] JobSteps collect_steps(const tool::Job& job);

}  // namespace cep::compare
