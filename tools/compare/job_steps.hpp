// SPDX-License-Identifier: Apache-2.0
//
// Job steps: one number for each phase in each recorded step, the mean over ranks; and the work of a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.hpp"
#include "model/job.hpp"

namespace cep::compare {

/// One phase, or the whole step, in the order of the steps that were recorded.
struct PhaseSteps {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    std::vector<double> ms;  // of all its spans in a step, the mean over its ranks; 0 in a step that does not have it
    std::vector<double> with_ms;  // of the steps that have it
};

/// What a step does, from the run rows.
struct Work {
    std::uint64_t ranks = 0;
    std::optional<double> tokens;  // of the job
    std::optional<double> flops;   // of all ranks
};

struct JobSteps {
    PhaseSteps step;  // empty where that is not known. Its ms: what is paid for each, up to the next recorded one and
                      // without start-up; with_ms: the recorded steps themselves
    std::vector<std::int64_t> numbers;               // of step.with_ms
    std::array<double, tool::piece_count> pieces{};  // of the mean of step.ms, which is their sum: ms by tool::TimeKind
    double left_out_ms = 0;                          // of the job: start-up, restarts, and steps done again
    bool has_step_spans = false;
    bool is_timed = false;  // rows have starts; else a step is the sum of its rows
    std::vector<PhaseSteps> phases;
    std::size_t folded_phases = 0;       // that one of them, "other phases", stands for: those with the least time
    std::vector<std::int64_t> recorded;  // that enough ranks recorded for any of these, in order
    Work work;
};

/// At most so many phases are compared one by one, and only as many as have so many values, one a step.
inline constexpr std::size_t max_phases = 1000;
inline constexpr std::size_t max_values = std::size_t{1} << 23;

/// Leaves out steps that less than half of a phase's ranks recorded. `ledger`: of the job. Throws UsageError where
/// durations are not kept.
[[nodiscard]] JobSteps collect_steps(const tool::Job& job, const tool::Ledger& ledger);

}  // namespace cep::compare
