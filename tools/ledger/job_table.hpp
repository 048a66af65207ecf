// SPDX-License-Identifier: Apache-2.0
//
// Job table: the time that each rank spent in each phase of each step, side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ledger/ledger.hpp"
#include "model/job.hpp"

namespace cep::tool {

/// Values by rank and step; NaN where there is none. Single precision: 1e-7 of a duration.
class StepMatrix {
  public:
    StepMatrix() = default;
    StepMatrix(std::size_t ranks, std::size_t steps) : ranks_(ranks), steps_(steps), values_(ranks * steps, NAN) {}

    [[nodiscard]] std::size_t ranks() const { return ranks_; }
    [[nodiscard]] std::size_t steps() const { return steps_; }
    [[nodiscard]] double at(std::size_t rank, std::size_t step) const { return values_[rank * steps_ + step]; }
    /// Whether there are cells, which have the same value.
    [[nodiscard]] bool is_uniform() const {
        return !values_.empty() &&
               std::all_of(values_.begin(), values_.end(), [this](float value) { return value == values_.front(); });
    }
    void set(std::size_t rank, std::size_t step, double value) { set_cell(rank * steps_ + step, value); }
    /// The cell of a rank and step has the same number in all matrices of a table.
    void set_cell(std::size_t cell, double value) { values_[cell] = static_cast<float>(value); }
    void add_to_cell(std::size_t cell, double value) {
        const float before = values_[cell];
        set_cell(cell, std::isnan(before) ? value : before + value);
    }
    /// The values of one rank, by step.
    [[nodiscard]] std::span<float> of_rank(std::size_t rank) { return {&values_[rank * steps_], steps_}; }
    [[nodiscard]] std::span<const float> of_rank(std::size_t rank) const { return {&values_[rank * steps_], steps_}; }

  private:
    std::size_t ranks_ = 0;
    std::size_t steps_ = 0;
    std::vector<float> values_;
};

/// A phase that lies beside others in a step and is not a collective.
struct LocalPhase {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    StepMatrix own_ms;       // without what it waits for, see LocalTime
    double usual_spans = 0;  // a step
    /// By cell: whether the device was done with it before the host launched what comes next. Empty if never.
    std::vector<std::uint8_t> is_launch_bound{};
};

struct JobTable {
    std::vector<RankRole> ranks;
    std::vector<std::int64_t> steps;  // ascending
    std::vector<LocalPhase> local;
    std::size_t folded_phases = 0;  // which the last of `local` stands for: so many that each needs too much memory
    bool has_step_spans = false;
    bool has_comm = false;
    std::vector<double> median_step_ms;  // of step_ms, over ranks, by step
    StepMatrix step_ms;                  // the step span; without any, from the first begin of the step to the last end
    StepMatrix comm_ms;                  // in all communication, overlaps once
    StepMatrix wait_ms;                  // of exposed_ms: waiting for late ranks, no bubble; NaN if unknown
    StepMatrix avoidable_ms;             // of wait_ms: by how much earlier the step would end without
    StepMatrix exposed_ms;               // of comm_ms: what the ledger sees of it in the iteration
    StepMatrix uncovered_ms;             // in no phase: inside of the step, and between it and the step before
    std::size_t all_steps = 0;           // of which `steps` are all, or a random sample
};

/// The table, and the ledger, which is of all steps.
struct JobTime {
    JobTable table;
    Ledger ledger;
};

struct TimeOptions {
    std::optional<double> peak_flops;  // of every rank's device, whatever its run row says
    std::size_t threads = 1;
    std::size_t max_cells = std::size_t{1} << 20;
};

/// Covers the steps of which all durations were kept; the table has a random sample of them where they are more than
/// `max_cells` ranks times steps.
[[nodiscard]] JobTime find_job_time(const Job& job, const TimeOptions& options);

/// Whether the step behind the one at an index was recorded. For what a rank does behind its last collective, the
/// others wait there.
[[nodiscard]] bool is_next_recorded(const std::vector<std::int64_t>& steps, std::size_t step);

/// Steps of the table that are no steady training, ascending: start-up, and where most ranks write a checkpoint or
/// evaluate. What one does for all is a loss of training.
[[nodiscard]] std::vector<std::int64_t> steps_without_training(const Job& job, const JobTable& table,
                                                               const Ledger& ledger);

}  // namespace cep::tool
