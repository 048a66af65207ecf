// SPDX-License-Identifier: Apache-2.0
//
// Rank timeline: the steps of one rank one after the other, cut into iterations, and what lies outside of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "ledger/piece_cutter.hpp"
#include "ledger/step_segments.hpp"
#include "model/phase_series.hpp"

namespace cep::tool {

/// One iteration of a rank: from the first row of a step to that of the next one.
struct Iteration {
    std::int64_t step = 0;
    std::uint32_t step_index = 0;   // of the steps that the caller numbers
    std::uint32_t start = 0;        // how often the rank was started before
    std::uint32_t since_start = 0;  // iterations
    std::int64_t length_ns = 0;     // to the next recorded step; else to its last row
    std::int64_t rows_ns = 0;       // from its first row to its last
    std::int64_t steps = 1;         // that the length is of: it and those that were not recorded
    bool is_followed = false;       // so that its length is known
    PieceTimes pieces{};        // of all of its length, or of its rows, if other steps follow that were not recorded
    double wait_ms = NAN;       // for late ranks; NaN where nobody knows
    double avoidable_ms = NAN;  // of it: by how much earlier the iteration would end without
    std::span<const Exposure> exposures{};
    std::span<const std::uint32_t> launch_bound{};  // phases
};

/// What is between iterations, and all that is known of them together.
struct RankOutside {
    std::int64_t begin_ns = 0;  // of the first row
    std::int64_t end_ns = 0;    // of the last row
    PieceTimes pieces;
    std::int64_t unrecorded_ns = 0;     // between recorded steps
    std::int64_t unrecorded_steps = 0;  // that it is of
};

/// How many steps it is from one to the other, in units; at least 0, and at most more than any job does.
[[nodiscard]] std::int64_t steps_between(std::int64_t from, std::int64_t to, std::int64_t unit);

class RankTimeline {
  public:
    /// `all_series` of the rank, in order. `steps`: those of the job. `step_unit`: by how much the numbers of steps
    /// that follow each other differ. `stride`: that the rank recorded with, in such steps. `is_whole`: nothing was
    /// left out by a filter.
    RankTimeline(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& steps,
                 std::int64_t step_unit, std::int64_t stride, bool is_whole);

    /// In the order of time. `use(const Iteration&)` is called for the step before.
    template <typename Use>
    void take(const StepSegments& step, PieceCutter& cutter, Use use) {
        if (has_step_) {
            use(settle(&step, cutter));
        } else {
            begin(step.rows.begin_ns);
        }
        enter(step);
    }
    /// Once, after the last step.
    template <typename Use>
    void finish(PieceCutter& cutter, Use use) {
        if (has_step_) use(settle(nullptr, cutter));
    }
    [[nodiscard]] const RankOutside& outside() const { return outside_; }
    [[nodiscard]] bool empty() const { return !has_step_; }

  private:
    /// From when on time is what `piece` says, until the next one or a step.
    struct Turn {
        std::int64_t at_ns;
        TimeKind piece;
    };
    void begin(std::int64_t first_ns);
    void enter(const StepSegments& step);
    [[nodiscard]] Iteration settle(const StepSegments* next, PieceCutter& cutter);
    void add_waiting(const PieceCutter& cutter, Iteration& iteration) const;
    void cut_outside(std::int64_t begin_ns, std::int64_t end_ns, TimeKind first);
    void carry(std::int64_t end_ns);

    const std::vector<std::int64_t>& steps_;
    std::vector<Turn> turns_;  // ascending
    std::size_t next_turn_ = 0;
    std::int64_t step_unit_;
    std::int64_t stride_;
    RankOutside outside_;
    std::vector<SpanSegment> segments_;  // of the step, and those before it that go on
    std::vector<SpanSegment> later_;     // a heap: they begin behind the step
    bool has_step_ = false;
    std::uint32_t step_index_ = 0;
    Interval rows_{0, 0};
    std::int64_t last_end_ns_ = INT64_MIN;  // of all spans
    InnerWaiting inner_waiting_;
    std::uint32_t start_ = 0;
    std::uint32_t since_start_ = 0;
};

}  // namespace cep::tool
