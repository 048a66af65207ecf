// SPDX-License-Identifier: Apache-2.0
//
// Rank spans: the spans of one rank, which its series hold phase by phase, step by step. Steps are indices into a table
// of steps, which ascends and is the same for all ranks; spans of steps that are not in it are left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

struct StepSpan {
    std::uint32_t step = 0;   // of the table
    std::uint32_t phase = 0;  // of the rank's phases, see RankPhase
    const Sample* sample = nullptr;
};

/// A phase of one rank, from all of its series.
struct RankPhase {
    explicit RankPhase(const PhaseSeries& series)
        : name(series.name), kind(series.kind), clock(series.clock), blocks(series.blocks) {}

    std::string_view name;
    schema::Kind kind;
    Clock clock;
    bool blocks;
};

/// The phases of a rank. Ranks usually have the same.
struct RankPhases {
    explicit RankPhases(const std::vector<RunSeries>& all_series);

    std::vector<RankPhase> all;
    std::vector<std::vector<std::uint32_t>> of_series;  // by series, then by its phase: index into all
};

/// Whether all attempts count in steps that several did, or the last one.
enum class Attempts : std::uint8_t { all, last };

/// Where the steps of a series are in the table. Ranks usually have the same.
struct StepPositions {
    StepPositions(const RunSeries& series, const std::vector<std::int64_t>& table_steps, Attempts attempts);

    const RunSeries* series;
    /// By index of the step in its series: twice the index of the first step of the table that is not before it, plus 1
    /// if it is the step and counts.
    std::vector<std::uint32_t> of_step;
};

/// Goes through the samples of one phase of one series, step by step.
class PhaseWalk {
  public:
    /// From the first sample in `first_step` of the table on.
    PhaseWalk(const PhaseSeries& series, const StepPositions& positions, std::uint32_t first_step);

    [[nodiscard]] const PhaseSeries& series() const { return *series_; }
    /// See StepPositions; of the end more than that of any step.
    [[nodiscard]] std::uint32_t position() const { return position_; }
    [[nodiscard]] bool is_at_end() const { return position_ == behind_all; }
    [[nodiscard]] const Sample& sample() const { return *next_; }
    void advance() { find_position(next_.advance()); }
    [[nodiscard]] bool is_in_step(std::uint32_t step) const { return position_ == 2 * step + 1; }
    /// The sample before this one, if it is in this step of the table; else null.
    [[nodiscard]] const Sample* before_in(std::uint32_t step) const {
        const std::size_t index = is_at_end() ? 0 : next_.index();
        if (index == 0) return nullptr;
        const Sample& before = series_->samples[index - 1];
        return positions_[before.step_index] == 2 * step + 1 ? &before : nullptr;
    }
    /// To the first one in this step of the table or behind it.
    void advance_to_step(std::uint32_t step) {
        constexpr int near = 4;  // so many are looked at as fast
        for (int i = 0; i < near && position_ < 2 * step + 1; ++i) advance();
        if (position_ < 2 * step + 1) [[unlikely]]
            search_step(step);
    }
    /// Has the memory of their samples read ahead, as far as a guess tells.
    void prefetch(std::span<const std::uint32_t> steps) const;

  private:
    void find_position(bool has_sample) { position_ = has_sample ? positions_[(*next_).step_index] : behind_all; }
    void search_step(std::uint32_t step);

    static constexpr std::uint32_t behind_all = std::numeric_limits<std::uint32_t>::max();

    const PhaseSeries* series_;
    const std::uint32_t* positions_;  // by step of the series
    SampleList::const_iterator next_;
    std::uint32_t position_ = 0;
};

/// The spans of one rank.
class RankSpans {
  public:
    /// What is the same as in `before`, if that is not null, is shared with it.
    RankSpans(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& table_steps,
              const RankSpans* before, Attempts attempts);

    [[nodiscard]] const std::vector<RankPhase>& phases() const { return phases_->all; }
    [[nodiscard]] bool shares_phases_with(const RankSpans& other) const { return phases_ == other.phases_; }
    /// Calls `use(phase, walk)` for each phase of each series, or those of a kind.
    template <typename Use>
    void for_each_phase(std::optional<schema::Kind> kind, std::uint32_t first_step, Use use) const {
        for (std::size_t i = 0; i < all_series_->size(); ++i)
            for (std::size_t j = 0; j < (*all_series_)[i].phases.size(); ++j)
                if (!kind || (*all_series_)[i].phases[j].kind == kind)
                    use(phases_->of_series[i][j], PhaseWalk((*all_series_)[i].phases[j], *positions_[i], first_step));
    }

  private:
    const std::vector<RunSeries>* all_series_;
    std::shared_ptr<const RankPhases> phases_;
    std::vector<std::shared_ptr<const StepPositions>> positions_;  // by series
};

/// Goes through the steps of one rank after the other. One a thread.
class StepWalk {
  public:
    /// `steps`: how many the table has.
    explicit StepWalk(std::size_t steps) : steps_(static_cast<std::uint32_t>(steps)) {}

    void start(const RankSpans& spans);
    /// The spans of the next step that has any, valid until the next call; none behind the last step.
    [[nodiscard]] std::span<const StepSpan> next();
    /// The spans of this step, instead of the next one; steps ascend.
    [[nodiscard]] std::span<const StepSpan> at(std::uint32_t step);

  private:
    struct Walk {
        std::uint32_t phase;
        PhaseWalk walk;
    };

    static constexpr std::size_t few_walks = 64;  // so few are looked through in each step

    void push_next(std::uint32_t index);
    [[nodiscard]] std::span<const StepSpan> next_of_many();

    const std::uint32_t steps_;
    std::vector<Walk> walks_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> next_walks_;  // of many: a heap of next positions and indices
    std::vector<StepSpan> spans_;
};

/// Calls `use(i, spans, phases)` for some steps of some ranks. `steps`: how many the table has.
template <typename Use>
void for_some_steps(std::span<const RankSpans> all_spans, std::size_t steps, Use use) {
    constexpr std::size_t ranks_to_ask = 16;
    constexpr std::size_t steps_to_ask = 100;  // of each
    const auto step_stride = static_cast<std::uint32_t>(std::max<std::size_t>(1, steps / steps_to_ask));
    for (std::size_t i = 0; i < all_spans.size(); i += std::max<std::size_t>(1, all_spans.size() / ranks_to_ask)) {
        StepWalk walk(steps);
        walk.start(all_spans[i]);
        for (std::uint32_t step = 0; step < steps; step += step_stride) use(i, walk.at(step), all_spans[i].phases());
    }
}

}  // namespace cep::tool
