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

#include "counter_series.hpp"
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

/// One span. 32 bytes: there may be tens of millions.
struct Sample {
    static constexpr std::int64_t no_start = std::numeric_limits<std::int64_t>::min();
    static constexpr std::uint32_t max_depth = 15;
    static constexpr std::uint32_t max_stream = 1023;
    static constexpr std::uint32_t max_seq = (1U << 18) - 1;

    /// A span's place in its step, as far as it is known. What is larger than there is room for becomes the maximum.
    [[nodiscard]] static std::uint32_t place_of(const Row& row);
    /// Tells a collective of a group from all others of its step; 0 where the row does not say.
    [[nodiscard]] static std::uint32_t collective_of(const Row& row);

    [[nodiscard]] bool has_start() const { return start_ns != no_start; }
    [[nodiscard]] std::uint32_t seq() const { return place & max_seq; }
    [[nodiscard]] std::uint32_t stream() const { return place >> 18 & max_stream; }
    [[nodiscard]] std::uint32_t depth() const { return place >> 28; }
    [[nodiscard]] bool is_top_level() const { return depth() == 0; }

    double duration_ms;
    std::int64_t start_ns;
    float lag_ms;  // NaN where the row does not say
    std::uint32_t collective;
    std::uint32_t step_index;  // into RunSeries::steps
    std::uint32_t place;
};
static_assert(sizeof(Sample) == 32);

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

    PhaseSeries& phase_of(const Row& row);
    std::uint32_t find_phase(const Row& row);
    std::uint32_t index_of_step(std::int64_t step);
    std::uint32_t find_step(std::int64_t step);

    std::unordered_map<std::string, std::uint32_t> phase_indices_;
    std::vector<NextPhases> next_phases_;  // by phase: what came behind it
    std::uint32_t last_phase_ = 0;
    std::unordered_map<std::int64_t, std::uint32_t> step_indices_;  // empty as long as steps ascend
    std::uint32_t last_step_ = 0;
    bool steps_ascend_ = true;
    std::uint32_t unspent_samples_ = 0;
    std::size_t next_counter_ = 0;
};

[[nodiscard]] Clock combine(Clock a, Clock b);

}  // namespace cep::analysis
