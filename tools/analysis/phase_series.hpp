// SPDX-License-Identifier: Apache-2.0
//
// Phase series: the durations of one phase of one rank in one run, while a file is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quantiles.hpp"
#include "row.hpp"

namespace cep::analysis {

/// How many durations a whole analysis may keep. Beyond it, durations go into histograms. Shared by all files.
class SampleBudget {
  public:
    explicit SampleBudget(std::uint64_t samples) : samples_(samples) {}
    /// Durations that have been kept; in portions, as threads that count one by one would wait for each other.
    void spend(std::uint64_t samples) { spent_.fetch_add(samples, std::memory_order_relaxed); }
    [[nodiscard]] bool exhausted() const { return spent_.load(std::memory_order_relaxed) > samples_; }

  private:
    const std::uint64_t samples_;
    std::atomic<std::uint64_t> spent_{0};
};

/// One duration. 16 bytes: there may be tens of millions.
struct Sample {
    static constexpr std::uint32_t top_level = 1U << 31;   // depth 0, or not known
    static constexpr std::uint32_t identified = 1U << 30;  // the low bits tell a row from the others of its step
    static constexpr std::uint32_t identity_mask = identified - 1;

    double duration_ms;
    std::uint32_t step_index;  // into RunSeries::steps
    std::uint32_t bits;
};

struct Totals {
    std::uint64_t count = 0;
    double sum_ms = 0;
    double top_level_ms = 0;
    double min_ms = std::numeric_limits<double>::infinity();
    double max_ms = 0;

    void add(double duration_ms, bool is_top_level);
    void merge(const Totals& other);
};

struct PhaseSeries {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
    std::vector<Sample> samples;
    LogHistogram histogram;  // what went beyond the budget
    Totals in_histogram;
    bool may_repeat = false;  // its steps went back, or a row looked like the one before it

    /// Moves the samples into the histogram.
    void fold();
};

/// The phases of one rank in one run, from one file.
struct RunSeries {
    RunInfo run;
    bool has_run = false;  // false: rows before any run row; run.attempt is then 1
    std::vector<std::int64_t> steps;
    std::vector<PhaseSeries> phases;
    StatsRow stats;
    bool has_stats = false;

    void add(const Row& row, SampleBudget& budget);
    /// No rows follow: gives back what only add() needs.
    void seal();
    /// nullptr for a phase that it does not have.
    [[nodiscard]] PhaseSeries* find(std::string_view name);

  private:
    PhaseSeries& phase_of(const Row& row);
    std::uint32_t find_phase(const Row& row);
    std::uint32_t index_of_step(std::int64_t step);
    std::uint32_t find_step(std::int64_t step);

    std::unordered_map<std::string, std::uint32_t> phase_indices_;
    std::vector<std::uint32_t> next_phases_;  // by phase: the one that last came behind it
    std::uint32_t last_phase_ = 0;
    std::unordered_map<std::int64_t, std::uint32_t> step_indices_;  // empty as long as steps ascend
    std::uint32_t last_step_ = 0;
    bool steps_ascend_ = true;
    std::uint32_t unspent_samples_ = 0;
};

[[nodiscard]] Clock combine(Clock a, Clock b);

}  // namespace cep::analysis
