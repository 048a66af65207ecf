// SPDX-License-Identifier: Apache-2.0
//
// Rank steps: what one rank did in one step, from the intervals of its spans.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "collectives.hpp"
#include "interval_set.hpp"
#include "phase_series.hpp"

namespace cep::analysis {

struct StepSpan {
    std::uint32_t step = 0;   // of the job table
    std::uint32_t phase = 0;  // of the rank's phases, see RankPhase
    const Sample* sample = nullptr;

    [[nodiscard]] Interval interval() const;
};

/// A phase of one rank, from all of its series.
struct RankPhase {
    std::string_view name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
};

/// One local phase in one step: all of its spans that lie side by side. Its own time is without what it waits for:
/// communication on its own stream that is inside of it; of communication on another stream that its thread began
/// there, the waiting, as transfers may run beside it; and all of the communication that it ends with.
struct LocalTime {
    std::uint32_t phase = 0;
    double own_ms = 0;
    double duration_ms = 0;
    std::uint32_t spans = 0;
};

struct RankStep {
    std::vector<LocalTime> local;
    double step_ms = 0;  // NaN if there is nothing to tell it from
    double comm_ms = 0;
    double wait_ms = 0;        // NaN where no collective was matched
    double group_wait_ms = 0;  // of wait_ms: in collectives of three ranks and more
    double matched_ms = 0;     // duration of the collectives that were
    double all_comm_ms = 0;    // duration of all
    double exposed_ms = 0;
    double overlap_ms = 0;
    double compute_ms = 0;
    double data_ms = 0;
    double idle_ms = 0;  // of the device: waiting for the host, or as slow as the host launches
};

/// The key by which ranks' collectives match.
[[nodiscard]] Transfers::Key collective_key(std::uint32_t step, std::string_view phase, const Sample& sample);

/// Takes the spans of one rank in one step apart. `step_phase` is the name of the outermost step spans, or "".
[[nodiscard]] RankStep analyse_step(const std::vector<StepSpan>& spans, const std::vector<RankPhase>& phases,
                                    std::string_view step_phase, const Transfers& transfers);

}  // namespace cep::analysis
