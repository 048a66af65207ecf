// SPDX-License-Identifier: Apache-2.0
//
// Series builder: makes the series of one rank in one run from the rows of a file, in whatever order they come.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "matching/collective_key.hpp"
#include "model/phase_series.hpp"
#include "read/row.hpp"

namespace cep::tool {

/// How many durations and ranks a whole analysis may keep. Shared by all files.
///
/// Where there are more durations, those of some steps are kept; which steps follows from all durations, and not from
/// when a thread finds out. While files are read, less is known than at the end, so that the choice only ever gets
/// smaller.
class SampleBudget {
  public:
    // A verdict needs steps to compare. Where the budget leaves fewer, which takes thousands of ranks, more is kept.
    static constexpr std::uint64_t few_steps = 256;
    static constexpr std::uint64_t times_for_few_steps = 4;

    explicit SampleBudget(std::uint64_t samples) : samples_(samples) {}

    /// Durations that a file has, and the steps of one of its series as far as it was read. Returns the steps to keep.
    StepChoice spend(const StepTally& samples, const StepTally& steps_of_series) {
        const std::lock_guard guard(mutex_);
        spent_.add(samples);
        const StepTally::Left steps = steps_of_series.left();
        for (std::size_t i = 0; i < steps.size(); ++i) most_steps_[i] = std::max(most_steps_[i], steps[i]);
        while (is_exceeded()) ++level_;
        return StepChoice(level_);
    }
    [[nodiscard]] StepChoice choice() const {
        const std::lock_guard guard(mutex_);
        return StepChoice(level_);
    }
    /// Ask for room for one rank of one file, and for one run of it.
    [[nodiscard]] bool admit_rank() { return ranks_.fetch_add(1, std::memory_order_relaxed) < max_ranks; }
    /// For a series that has so many.
    [[nodiscard]] bool admit_channel(std::size_t channels_of_series, std::size_t name_bytes) {
        return channels_of_series < max_channels_of_series &&
               channels_.fetch_add(1, std::memory_order_relaxed) < max_channels &&
               channel_bytes_.fetch_add(name_bytes, std::memory_order_relaxed) < max_channel_bytes;
    }
    [[nodiscard]] bool admit_run() { return runs_.fetch_add(1, std::memory_order_relaxed) < max_runs; }

    static constexpr std::uint64_t max_ranks = 200'000;
    static constexpr std::uint64_t max_runs = 150'000;  // of all ranks
    static constexpr std::uint64_t max_channels = std::uint64_t{1} << 20;
    static constexpr std::uint64_t max_channels_of_series = std::uint64_t{1} << 16;
    static constexpr std::uint64_t max_channel_bytes = std::uint64_t{1} << 26;

  private:
    // Grows with what is known, so that what is exceeded now is at the end.
    [[nodiscard]] bool is_exceeded() const {
        if (level_ + 1 == StepChoice::none) return false;
        const std::uint64_t kept = spent_.left()[level_];
        if (kept <= samples_) return false;
        return most_steps_[level_ + 1] >= few_steps || kept / times_for_few_steps > samples_;
    }

    const std::uint64_t samples_;
    mutable std::mutex mutex_;
    StepTally spent_;
    StepTally::Left most_steps_{};  // of any series
    unsigned level_ = 0;
    std::atomic<std::uint64_t> ranks_{0};
    std::atomic<std::uint64_t> runs_{0};
    std::atomic<std::uint64_t> channels_{0};
    std::atomic<std::uint64_t> channel_bytes_{0};
};

/// What one file spends; in portions, as threads that count one by one would wait for each other.
class SampleMeter {
  public:
    explicit SampleMeter(std::shared_ptr<SampleBudget> budget)
        : budget_(std::move(budget)), choice_(budget_->choice()) {}

    void count(unsigned level_of_step) {
        samples_.add(level_of_step);
        ++portion_;
    }
    [[nodiscard]] bool is_due() const { return portion_ >= full_portion; }
    void spend(const StepTally& steps_of_series) {
        choice_ = budget_->spend(std::exchange(samples_, {}), steps_of_series);
        portion_ = 0;
    }
    [[nodiscard]] StepChoice choice() const { return choice_; }
    [[nodiscard]] SampleBudget& budget() const { return *budget_; }

  private:
    static constexpr std::uint32_t full_portion = 1024;

    std::shared_ptr<SampleBudget> budget_;
    StepChoice choice_;
    StepTally samples_;
    std::uint32_t portion_ = 0;
};

class SeriesBuilder {
  public:
    SeriesBuilder() = default;
    /// `attempt`: tells the collectives of attempts apart, if it is not the same for all.
    SeriesBuilder(bool keeps_messages, std::uint64_t attempt) : keeps_messages_(keeps_messages), attempt_(attempt) {}

    void add(const Row& row, SampleMeter& meter);
    /// Whether the channel of the row is there, or there is room for it, if messages are kept. Else it is counted, and
    /// is not to be added.
    [[nodiscard]] bool admits_channel(const Row& row, SampleBudget& budget);
    void add_counter(const Row& row);
    void add_stride_change(const StrideChange& change);
    /// The tally of its steps.
    [[nodiscard]] StepTally step_tally() const;
    /// As far as rows were added; its steps and samples in their order.
    [[nodiscard]] RunSeries& series() { return series_; }
    /// Once, after the last row.
    [[nodiscard]] RunSeries finish();

    /// The attributes of a sample. What is larger than there is room for becomes the maximum. `is_behind_step`: its
    /// row stands behind that of the step span.
    [[nodiscard]] static std::uint32_t attributes_of(const Row& row, bool is_behind_step);

  private:
    struct NextPhases {
        std::uint32_t first;  // the last one
        std::uint32_t other;  // the last one before it that was another
    };
    struct CommPhase {
        CollectiveKey key;
        std::uint32_t channel = CommChannel::none;
    };

    PhaseSeries& phase_of(const Row& row);
    [[nodiscard]] std::int64_t place(const Row& row);
    CommMessage add_comm(const Row& row, PhaseSeries& phase, SampleBudget& budget, Sample& sample);
    std::uint32_t find_channel(const Row& row, std::uint32_t phase, SampleBudget& budget);
    std::uint32_t find_next_phase(const Row& row);
    std::uint32_t find_phase(const Row& row);
    std::uint32_t find_known_phase(std::string_view name);
    std::uint32_t index_of_step(std::int64_t step);
    void enter_step(std::int64_t step);
    std::uint32_t find_step(std::int64_t step);
    [[nodiscard]] bool may_repeat(const SampleList& before, const Sample& next) const;
    void sort_steps();

    RunSeries series_;
    bool keeps_messages_ = false;
    std::uint64_t attempt_ = 0;
    std::unordered_map<std::string, std::uint32_t> phase_indices_;  // of phases, if they are many, the first ones
    std::vector<NextPhases> next_phases_;                           // by phase: what came behind it
    std::uint32_t last_phase_ = 0;
    std::vector<CommPhase> comm_phases_;                              // by phase
    std::unordered_map<std::string, std::uint32_t> channel_indices_;  // by channel_key_
    std::string channel_key_;
    std::unordered_map<std::int64_t, std::uint32_t> step_indices_;  // empty as long as steps ascend
    std::uint32_t last_step_ = 0;
    std::uint32_t last_step_span_ = UINT32_MAX;  // the step whose step span was seen last
    // Of rows without starts:
    std::int64_t placed_until_ns_ = Sample::no_start;  // the end of the last one
    std::int64_t step_begin_ns_ = Sample::no_start;
    std::uint32_t placed_step_ = UINT32_MAX;  // that began then
    bool steps_ascend_ = true;
    unsigned level_of_step_ = 0;              // of last_step_
    std::vector<std::uint32_t> step_counts_;  // by level_of() the steps; as long as needed
};

// What follows is here and not in the source, as it is called for every row.

/// The device began it as soon as it was launched, and had done it about when the host had launched all of it: the
/// span is as long as the host's work. (A span that ends by waiting for the device looks the same.)
[[nodiscard]] inline bool is_host_paced(const Row& row) {
    constexpr double least_lag_ms = 0.02;  // a launch takes a quarter of it
    constexpr double small_lag = 0.05;     // of the duration
    constexpr double small_rest = 0.1;     // of the duration: what the device does after the host is done
    if (row.clock != Clock::gpu || !row.lag_ms || !row.host_ms) return false;
    return *row.lag_ms <= std::max(least_lag_ms, small_lag * row.duration_ms) &&
           row.duration_ms + *row.lag_ms - *row.host_ms <= small_rest * row.duration_ms;
}

inline std::uint32_t SeriesBuilder::attributes_of(const Row& row, bool is_behind_step) {
    const auto clamped = [](const std::optional<std::int64_t>& value, std::uint32_t max) -> std::uint32_t {
        const std::int64_t number = value.value_or(0);
        if (static_cast<std::uint64_t>(number) <= max) [[likely]]
            return static_cast<std::uint32_t>(number);
        return number < 0 ? 0 : max;
    };
    const bool is_flagged = row.start_ns ? is_host_paced(row) : is_behind_step;
    return clamped(row.depth, Sample::max_depth) << 28 | clamped(row.stream, Sample::max_stream) << 18 |
           (is_flagged ? Sample::flag : 0) | clamped(row.seq, Sample::max_seq);
}

inline void SeriesBuilder::add(const Row& row, SampleMeter& meter) {
    PhaseSeries& phase = phase_of(row);
    Sample sample{row.duration_ms,
                  row.start_ns.value_or(Sample::no_start),
                  row.lag_ms ? static_cast<float>(*row.lag_ms) : std::numeric_limits<float>::quiet_NaN(),
                  0,
                  index_of_step(*row.step),
                  attributes_of(row, last_step_ == last_step_span_)};
    series_.says_depths |= row.depth.has_value();
    if (!row.start_ns) sample.start_ns = place(row);
    if (row.kind == schema::Kind::step) last_step_span_ = last_step_;
    const bool is_comm = phase.kind == schema::Kind::comm;
    const CommMessage message = is_comm ? add_comm(row, phase, meter.budget(), sample) : CommMessage();
    if (!meter.choice().keeps_all()) [[unlikely]] {
        phase.of_all_steps.add(sample.duration_ms);
        if (level_of_step_ < meter.choice().level()) return;
    }
    meter.count(level_of_step_);
    phase.may_repeat |= !phase.samples.empty() && may_repeat(phase.samples, sample);
    phase.samples.push_back(sample);
    if (is_comm && keeps_messages_) phase.messages.push_back(message);
}

// The phases of a step come in the same order in every step.
inline PhaseSeries& SeriesBuilder::phase_of(const Row& row) {
    std::vector<PhaseSeries>& phases = series_.phases;
    const bool as_expected = !phases.empty() && same_text(phases[next_phases_[last_phase_].first].name, row.name);
    last_phase_ = as_expected ? next_phases_[last_phase_].first : find_next_phase(row);
    PhaseSeries& phase = phases[last_phase_];
    phase.clock = combine(phase.clock, row.clock);
    return phase;
}

inline std::uint32_t SeriesBuilder::index_of_step(std::int64_t step) {
    if (series_.steps.empty() || series_.steps[last_step_] != step) enter_step(step);
    return last_step_;
}

inline bool SeriesBuilder::may_repeat(const SampleList& before, const Sample& next) const {
    const Sample& last = before.back();
    const StepNumbers& steps = series_.steps;
    if (last.step_index != next.step_index)
        return steps_ascend_ ? next.step_index < last.step_index : steps[next.step_index] < steps[last.step_index];
    if (!series_.has_run || !next.has_start()) return false;
    return last.start_ns == next.start_ns && last.attributes == next.attributes;
}

}  // namespace cep::tool
