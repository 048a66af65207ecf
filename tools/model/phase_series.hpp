// SPDX-License-Identifier: Apache-2.0
//
// Phase series: the durations of one phase of one rank in one run, while a file is read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/same_text.hpp"
#include "model/counter_series.hpp"
#include "model/sample_list.hpp"
#include "read/row.hpp"
#include "stats/quantiles.hpp"

namespace cep::tool {

/// How many durations and ranks a whole analysis may keep. Beyond it, durations go into histograms. Shared by all
/// files.
class SampleBudget {
  public:
    explicit SampleBudget(std::uint64_t samples) : samples_(samples) {}
    /// Durations that have been kept; in portions, as threads that count one by one would wait for each other.
    void spend(std::uint64_t samples) { spent_.fetch_add(samples, std::memory_order_relaxed); }
    [[nodiscard]] bool exhausted() const { return spent_.load(std::memory_order_relaxed) > samples_; }
    /// Ask for room for one rank of one file, and for one run of it.
    [[nodiscard]] bool admit_rank() { return ranks_.fetch_add(1, std::memory_order_relaxed) < max_ranks; }
    [[nodiscard]] bool admit_run() { return runs_.fetch_add(1, std::memory_order_relaxed) < max_runs; }

    static constexpr std::uint64_t max_ranks = 200'000;
    static constexpr std::uint64_t max_runs = 150'000;  // of all ranks

  private:
    const std::uint64_t samples_;
    std::atomic<std::uint64_t> spent_{0};
    std::atomic<std::uint64_t> ranks_{0};
    std::atomic<std::uint64_t> runs_{0};
};

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
    void add(const SampleChunk& samples);
    void merge(const Totals& other);
};

struct PhaseSeries {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
    SampleList samples;
    LogHistogram histogram;  // what went beyond the budget
    Totals in_histogram;
    bool may_repeat = false;  // its steps went back, or a row looked like the one before it

    /// Moves the samples into the histogram.
    void fold();
    void fold_with(double duration_ms, bool is_top_level);
};

[[nodiscard]] Totals totals_of(const PhaseSeries& phase);

[[nodiscard]] constexpr Clock combine(Clock a, Clock b) {
    return a == b ? a : Clock::mixed;
}

/// The phases of one rank in one run, from one file.
struct RunSeries {
    RunInfo run;
    bool has_run = false;  // false: rows before any run row; run.attempt is then 1
    std::vector<std::int64_t> steps;
    std::vector<PhaseSeries> phases;
    StatsRow stats;
    bool has_stats = false;
    std::vector<CounterSeries> counters;  // sealed: by name

    void add(const Row& row, SampleBudget& budget);
    void add_counter(const Row& row);
    /// No rows follow: gives back what only add() needs.
    void seal();
    /// nullptr for a phase that it does not have.
    [[nodiscard]] PhaseSeries* find(std::string_view name);

  private:
    struct NextPhases {
        std::uint32_t first;  // the last one
        std::uint32_t other;  // the last one before it that was another
    };

    static constexpr std::uint32_t budget_portion = 1024;

    PhaseSeries& phase_of(const Row& row);
    std::uint32_t find_next_phase(const Row& row);
    std::uint32_t find_phase(const Row& row);
    std::uint32_t index_of_step(std::int64_t step);
    std::uint32_t find_step(std::int64_t step);
    [[nodiscard]] bool may_repeat(const SampleList& before, const Sample& next) const;

    std::unordered_map<std::string, std::uint32_t> phase_indices_;  // of phases, if they are many, the first ones
    std::vector<NextPhases> next_phases_;                           // by phase: what came behind it
    std::uint32_t last_phase_ = 0;
    std::unordered_map<std::int64_t, std::uint32_t> step_indices_;  // empty as long as steps ascend
    std::uint32_t last_step_ = 0;
    bool steps_ascend_ = true;
    std::uint32_t unspent_samples_ = 0;
    std::unordered_map<std::string, std::size_t> counter_indices_;
    std::size_t next_counter_ = 0;  // the one that is expected
};

/// By rank: one series for each of its runs and files.
using RankSeries = std::map<std::int64_t, std::vector<RunSeries>>;

// Here and not in the source, as it is called for every row.
inline void RunSeries::add(const Row& row, SampleBudget& budget) {
    PhaseSeries& phase = phase_of(row);
    const Sample sample{row.duration_ms,
                        row.start_ns.value_or(Sample::no_start),
                        row.lag_ms ? static_cast<float>(*row.lag_ms) : std::numeric_limits<float>::quiet_NaN(),
                        row.kind == schema::Kind::comm ? Sample::collective_of(row) : 0,
                        index_of_step(*row.step),
                        Sample::place_of(row)};
    if (unspent_samples_ == 0 && budget.exhausted()) return phase.fold_with(sample.duration_ms, sample.is_top_level());
    if (++unspent_samples_ == budget_portion) budget.spend(std::exchange(unspent_samples_, 0));
    phase.may_repeat |= !phase.samples.empty() && may_repeat(phase.samples, sample);
    phase.samples.push_back(sample);
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
    if (steps.empty() || steps[last_step_] != step) last_step_ = find_step(step);
    return last_step_;
}

inline bool RunSeries::may_repeat(const SampleList& before, const Sample& next) const {
    const std::uint32_t last_step = before.last_step_index();
    if (last_step != next.step_index)
        return steps_ascend_ ? next.step_index < last_step : steps[next.step_index] < steps[last_step];
    if (!has_run || !next.has_start()) return false;
    const Sample last = before.back();
    return last.start_ns == next.start_ns && last.place == next.place;
}

}  // namespace cep::tool
