// SPDX-License-Identifier: Apache-2.0
//
// Sample budget: how much of a job is kept in memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "model/step_choice.hpp"

namespace cep::tool {

/// How many durations and ranks a whole analysis may keep. Shared by all files.
///
/// Of more durations, those of some steps are kept; which steps follows from all durations, and not from when a thread
/// finds out. While files are read, less is known than at the end, so that the choice only ever gets smaller.
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
        while (is_exceeded()) ++halvings_;
        return StepChoice(halvings_);
    }
    [[nodiscard]] StepChoice choice() const {
        const std::lock_guard guard(mutex_);
        return StepChoice(halvings_);
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
        if (halvings_ + 1 == StepChoice::none) return false;
        const std::uint64_t kept = spent_.left()[halvings_];
        if (kept <= samples_) return false;
        return most_steps_[halvings_ + 1] >= few_steps || kept / times_for_few_steps > samples_;
    }

    const std::uint64_t samples_;
    mutable std::mutex mutex_;
    StepTally spent_;
    StepTally::Left most_steps_{};  // of any series
    unsigned halvings_ = 0;
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

    void count(unsigned halvings_of_step) {
        samples_.add(halvings_of_step);
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

}  // namespace cep::tool
