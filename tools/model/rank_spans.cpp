// SPDX-License-Identifier: Apache-2.0
#include "model/rank_spans.hpp"

#include <algorithm>
#include <unordered_map>

namespace cep::tool {
namespace {

bool have_same_phases(const std::vector<RunSeries>& a, const std::vector<RunSeries>& b) {
    const auto are_same = [](const PhaseSeries& x, const PhaseSeries& y) {
        return x.name == y.name && x.kind == y.kind && x.clock == y.clock && x.blocks == y.blocks;
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [are_same](const RunSeries& x, const RunSeries& y) {
        return std::equal(x.phases.begin(), x.phases.end(), y.phases.begin(), y.phases.end(), are_same);
    });
}

}  // namespace

StepPositions::StepPositions(const RunSeries& of, const std::vector<std::int64_t>& table_steps, Attempts attempts)
    : series(&of) {
    of_step.reserve(of.steps.size());
    auto at = table_steps.begin();
    for (const std::int64_t step : of.steps) {
        if (at == table_steps.end() || *at != step) at = std::lower_bound(at, table_steps.end(), step);
        const bool found = at != table_steps.end() && *at == step;
        const bool counts = attempts == Attempts::all || of.is_superseded.empty() || !of.is_superseded[of_step.size()];
        of_step.push_back(2 * static_cast<std::uint32_t>(at - table_steps.begin()) + (found && counts));
        if (found) ++at;
    }
}

PhaseWalk::PhaseWalk(const PhaseSeries& series, const StepPositions& positions, std::uint32_t first_step)
    : series_(&series), positions_(positions.of_step.data()), next_(series.samples.begin()) {
    find_position(!series.samples.empty());
    if (first_step > 0 && position_ < 2 * first_step + 1) search_step(first_step);
}

// Most phases have as many spans in each step: the first guess is right there.
void PhaseWalk::search_step(std::uint32_t step) {
    const SampleList& samples = series_->samples;
    const std::uint32_t wanted = 2 * step + 1;
    const auto position_at = [&](std::size_t i) { return positions_[samples[i].step_index]; };
    std::size_t low = next_.index();
    std::size_t high = samples.size();
    const std::uint64_t all = std::max(position_at(high - 1), wanted) - position_ + 2;
    const std::size_t guess = low + static_cast<std::size_t>((wanted - position_) * (high - low) / all);
    std::size_t reach = 1;
    if (position_at(guess) < wanted) {
        for (low = guess + 1; low + reach < high && position_at(low + reach) < wanted;) reach *= 2;
        high = std::min(low + reach, high);
    } else {
        for (high = guess; low + reach < high && position_at(high - reach) >= wanted;) reach *= 2;
        low = std::max(low + reach, high) - reach;
    }
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (position_at(middle) < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    next_.seek(low);
    find_position(low < samples.size());
}

void PhaseWalk::prefetch(std::span<const std::uint32_t> steps) const {
    if (is_at_end()) return;
    const SampleList& samples = series_->samples;
    const auto next = static_cast<double>(next_.index());
    const auto end = static_cast<double>(samples.size());
    const double per_position = (end - next) / (1.0 + positions_[samples.back().step_index] - position_);
    for (const std::uint32_t step : steps) {
        const double guess = next + per_position * (2.0 * step + 1 - position_);
        if (guess >= next && guess < end) __builtin_prefetch(&samples[static_cast<std::size_t>(guess)]);
    }
}

RankPhases::RankPhases(const std::vector<RunSeries>& all_series) {
    std::unordered_map<std::string_view, std::uint32_t> indices;
    for (const RunSeries& series : all_series) {
        of_series.emplace_back();
        for (const PhaseSeries& phase : series.phases) {
            const auto [found, is_new] = indices.try_emplace(phase.name, static_cast<std::uint32_t>(all.size()));
            if (is_new) all.emplace_back(phase);
            of_series.back().push_back(found->second);
        }
    }
}

RankSpans::RankSpans(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& table_steps,
                     const RankSpans* before, Attempts attempts)
    : all_series_(&all_series) {
    const bool same_phases = before != nullptr && have_same_phases(*before->all_series_, all_series);
    phases_ = same_phases ? before->phases_ : std::make_shared<const RankPhases>(all_series);
    for (const RunSeries& series : all_series) {
        const bool has_before = before != nullptr && positions_.size() < before->positions_.size();
        std::shared_ptr<const StepPositions> same = has_before ? before->positions_[positions_.size()] : nullptr;
        if (same == nullptr || same->series->steps != series.steps ||
            same->series->is_superseded != series.is_superseded)
            same = std::make_shared<const StepPositions>(series, table_steps, attempts);
        positions_.push_back(std::move(same));
    }
}

void StepWalk::start(const RankSpans& spans) {
    walks_.clear();
    spans.for_each_phase(std::nullopt, 0, [this](std::uint32_t phase, const PhaseWalk& walk) {
        walks_.push_back({phase, walk});
    });
    next_walks_.clear();
    if (walks_.size() <= few_walks) return;
    for (std::uint32_t i = 0; i < walks_.size(); ++i) push_next(i);
}

std::span<const StepSpan> StepWalk::next() {
    spans_.clear();
    if (walks_.size() > few_walks) return next_of_many();
    std::uint32_t position = 2 * steps_;  // of the next step that has a span
    for (auto& [phase, walk] : walks_) {
        while (walk.position() % 2 == 0 && walk.position() < position) walk.advance();
        position = std::min(position, walk.position());
    }
    if (position >= 2 * steps_) return spans_;
    for (auto& [phase, walk] : walks_)
        for (; walk.position() == position; walk.advance()) spans_.push_back({position / 2, phase, &walk.sample()});
    return spans_;
}

std::span<const StepSpan> StepWalk::at(std::uint32_t step) {
    spans_.clear();
    for (const Walk& of : walks_) of.walk.prefetch(std::span(&step, 1));
    for (auto& [phase, walk] : walks_)
        for (walk.advance_to_step(step); walk.is_in_step(step); walk.advance())
            spans_.push_back({step, phase, &walk.sample()});
    return spans_;
}

void StepWalk::push_next(std::uint32_t index) {
    PhaseWalk& walk = walks_[index].walk;
    while (walk.position() % 2 == 0) walk.advance();  // steps that the table leaves out
    if (walk.position() >= 2 * steps_) return;
    next_walks_.emplace_back(walk.position(), index);
    std::push_heap(next_walks_.begin(), next_walks_.end(), std::greater<>());
}

std::span<const StepSpan> StepWalk::next_of_many() {
    if (next_walks_.empty()) return {};
    const std::uint32_t position = next_walks_.front().first;
    while (!next_walks_.empty() && next_walks_.front().first == position) {
        const std::uint32_t index = next_walks_.front().second;
        std::pop_heap(next_walks_.begin(), next_walks_.end(), std::greater<>());
        next_walks_.pop_back();
        auto& [phase, walk] = walks_[index];
        for (; walk.position() == position; walk.advance()) spans_.push_back({position / 2, phase, &walk.sample()});
        push_next(index);
    }
    return spans_;
}

}  // namespace cep::tool
