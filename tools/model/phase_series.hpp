// SPDX-License-Identifier: Apache-2.0
//
// Phase series: the durations of the phases, and what is kept of the counters, of one rank in one run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/same_text.hpp"
#include "model/comm_series.hpp"
#include "model/sample_budget.hpp"
#include "model/sample_list.hpp"
#include "model/step_numbers.hpp"
#include "read/row.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

struct Totals {
    std::uint64_t count = 0;
    double sum_ms = 0;
    double top_level_ms = 0;
    double min_ms = std::numeric_limits<double>::infinity();
    double max_ms = 0;

    void add(double duration_ms, bool is_top_level) {
        ++count;
        sum_ms += duration_ms;
        if (is_top_level) top_level_ms += duration_ms;
        min_ms = std::min(min_ms, duration_ms);
        max_ms = std::max(max_ms, duration_ms);
    }
    void add(const Sample& sample) { add(sample.duration_ms, sample.is_top_level()); }
    void merge(const Totals& other);
};

struct PhaseSeries {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
    SampleList samples;                 // of the steps that are kept
    std::vector<CommMessage> messages;  // of these, if the job keeps messages; of communication
    Totals of_all_steps;                // of nothing where all steps are kept
    bool may_repeat = false;            // its steps went back, or a row looked like the one before it
    bool is_counted = false;            // of communication: some row says no number of its own
    bool may_share_name = false;        // of communication: in some row no place of the rank says which group it is
    bool blocks = false;                // of communication: the work that it is inside of waits, see blocking_comm.hpp

    [[nodiscard]] bool has_all_steps() const { return of_all_steps.count == 0; }
    /// Leaves some samples, and returns how many are gone. Asks once for each, in their order.
    template <typename IsGone>
    std::size_t erase_samples_if(IsGone is_gone);
};

template <typename IsGone>
std::size_t PhaseSeries::erase_samples_if(IsGone is_gone) {
    auto message = messages.begin();
    auto kept = messages.begin();
    const std::size_t gone = samples.erase_if([&](const Sample& sample) {
        const bool goes = is_gone(sample);
        if (message != messages.end()) {
            if (!goes) *kept++ = *message;
            ++message;
        }
        return goes;
    });
    messages.erase(kept, messages.end());
    return gone;
}

[[nodiscard]] Totals totals_of(const PhaseSeries& phase);

[[nodiscard]] constexpr Clock combine(Clock a, Clock b) {
    return a == b ? a : Clock::mixed;
}

/// One counter on one rank in one run: memory in use, or anything else. The order of the rows does not matter, nor that
/// some come twice.
struct CounterSeries {
    std::string name;
    double max = -std::numeric_limits<double>::infinity();
    std::int64_t last_step = INT64_MIN;
    double last = -std::numeric_limits<double>::infinity();  // of that step; of several the largest

    void add(std::int64_t step, double value) {
        max = std::max(max, value);
        if (step < last_step) return;
        last = step > last_step ? value : std::max(last, value);
        last_step = step;
    }
};

/// The phases of one rank in one run, from one file.
struct RunSeries {
    RunInfo run;
    bool has_run = false;  // false: rows before any run row; run.attempt is then 1
    StepNumbers steps;
    std::vector<PhaseSeries> phases;
    StatsRow stats;
    bool has_stats = false;
    std::vector<bool> is_superseded;            // by index of its steps: a later attempt did it again; empty if none
    Interval superseded{INT64_MAX, INT64_MIN};  // of the spans of these; empty for none
    std::optional<StrideChange> stride;         // from the user's to that of the last change
    std::vector<CounterSeries> counters;        // sealed: by name
    std::shared_ptr<CommSeries> comm;           // of all copies; sealed: nothing, unless messages are kept

    void add(const Row& row, SampleMeter& meter);
    /// Whether the row's channel is there, or there is room for it. Else it is counted, and is not to be added.
    [[nodiscard]] bool admits_channel(const Row& row, SampleBudget& budget);
    void add_counter(const Row& row);
    void add_stride_change(const StrideChange& change);
    /// Leaves the samples of the steps that are kept, once all of them are counted in the totals.
    void thin(StepChoice choice);
    /// The tally of its steps. Before seal().
    [[nodiscard]] StepTally step_tally() const;
    /// No rows follow: gives back what only add() needs.
    void seal();
    /// nullptr for a phase that it does not have.
    [[nodiscard]] PhaseSeries* find(std::string_view name);

  private:
    struct NextPhases {
        std::uint32_t first;  // the last one
        std::uint32_t other;  // the last one before it that was another
    };

    PhaseSeries& phase_of(const Row& row);
    CommMessage add_comm(const Row& row, PhaseSeries& phase, SampleBudget& budget, Sample& sample);
    std::uint32_t find_next_phase(const Row& row);
    std::uint32_t find_phase(const Row& row);
    std::uint32_t find_known_phase(std::string_view name);
    std::uint32_t index_of_step(std::int64_t step);
    void enter_step(std::int64_t step);
    std::uint32_t find_step(std::int64_t step);
    [[nodiscard]] bool may_repeat(const SampleList& before, const Sample& next) const;

    std::unordered_map<std::string, std::uint32_t> phase_indices_;  // of phases, if they are many, the first ones
    std::vector<NextPhases> next_phases_;                           // by phase: what came behind it
    std::uint32_t last_phase_ = 0;
    std::unordered_map<std::int64_t, std::uint32_t> step_indices_;  // empty as long as steps ascend
    std::uint32_t last_step_ = 0;
    std::uint32_t last_step_span_ = UINT32_MAX;  // the step whose step span was seen last
    bool steps_ascend_ = true;
    unsigned halvings_of_step_ = 0;           // of last_step_
    std::vector<std::uint32_t> step_counts_;  // by halvings_of() the steps; as long as needed
    std::unordered_map<std::string, std::size_t> counter_indices_;
    std::size_t next_counter_ = 0;  // the one that is expected
};

/// By rank: one series for each of its runs and files.
using RankSeries = std::map<std::int64_t, std::vector<RunSeries>>;

// Here and not in the source, as it is called for every row.
inline void RunSeries::add(const Row& row, SampleMeter& meter) {
    PhaseSeries& phase = phase_of(row);
    Sample sample{row.duration_ms,
                  row.start_ns.value_or(Sample::no_start),
                  row.lag_ms ? static_cast<float>(*row.lag_ms) : std::numeric_limits<float>::quiet_NaN(),
                  0,
                  index_of_step(*row.step),
                  Sample::place_of(row, last_step_ == last_step_span_)};
    if (row.kind == schema::Kind::step) last_step_span_ = last_step_;
    const bool is_comm = phase.kind == schema::Kind::comm;
    const CommMessage message = is_comm ? add_comm(row, phase, meter.budget(), sample) : CommMessage();
    if (!meter.choice().keeps_all()) [[unlikely]] {
        phase.of_all_steps.add(sample);
        if (halvings_of_step_ < meter.choice().halvings()) return;
    }
    meter.count(halvings_of_step_);
    phase.may_repeat |= !phase.samples.empty() && may_repeat(phase.samples, sample);
    phase.samples.push_back(sample);
    if (is_comm && comm->keeps_messages()) phase.messages.push_back(message);
}

// The phases of a step come in the same order in every step.
inline PhaseSeries& RunSeries::phase_of(const Row& row) {
    const bool as_expected = !phases.empty() && same_text(phases[next_phases_[last_phase_].first].name, row.name);
    last_phase_ = as_expected ? next_phases_[last_phase_].first : find_next_phase(row);
    PhaseSeries& phase = phases[last_phase_];
    phase.clock = combine(phase.clock, row.clock);
    return phase;
}

inline std::uint32_t RunSeries::index_of_step(std::int64_t step) {
    if (steps.empty() || steps[last_step_] != step) enter_step(step);
    return last_step_;
}

inline bool RunSeries::may_repeat(const SampleList& before, const Sample& next) const {
    const Sample& last = before.back();
    if (last.step_index != next.step_index)
        return steps_ascend_ ? next.step_index < last.step_index : steps[next.step_index] < steps[last.step_index];
    if (!has_run || !next.has_start()) return false;
    return last.start_ns == next.start_ns && last.place == next.place;
}

}  // namespace cep::tool
