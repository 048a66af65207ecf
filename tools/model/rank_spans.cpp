// SPDX-License-Identifier: Apache-2.0
#include "model/rank_spans.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cep::tool {
namespace {

/// The first of the numbers below `count` that is not before; `count` if all are.
template <typename IsBefore>
std::size_t find_first(std::size_t count, IsBefore is_before) {
    std::size_t low = 0;
    for (std::size_t high = count; low < high;) {
        const std::size_t middle = low + (high - low) / 2;
        if (is_before(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool have_same_phases(const std::vector<RunSeries>& a, const std::vector<RunSeries>& b) {
    const auto are_same = [](const PhaseSeries& x, const PhaseSeries& y) {
        return x.name == y.name && x.kind == y.kind && x.clock == y.clock && x.blocks == y.blocks;
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [are_same](const RunSeries& x, const RunSeries& y) {
        return std::equal(x.phases.begin(), x.phases.end(), y.phases.begin(), y.phases.end(), are_same);
    });
}

}  // namespace

// In both, steps usually ascend.
StepPlaces::StepPlaces(const RunSeries& of, const std::vector<std::int64_t>& table_steps, Attempts attempts)
    : series(&of), ascend(std::is_sorted(of.steps.begin(), of.steps.end())) {
    of_step.reserve(of.steps.size());
    auto at = table_steps.begin();
    for (const std::int64_t step : of.steps) {
        if (at == table_steps.end() || *at != step) at = std::lower_bound(table_steps.begin(), table_steps.end(), step);
        const bool found = at != table_steps.end() && *at == step;
        const bool counts = attempts == Attempts::all || of.is_superseded.empty() || !of.is_superseded[of_step.size()];
        of_step.push_back(2 * static_cast<std::uint32_t>(at - table_steps.begin()) + (found && counts));
        if (found) ++at;
    }
}

PartWalk::PartWalk(const PhaseSeries& series, const std::vector<std::size_t>& in_order, const StepPlaces& places,
                   std::uint32_t first_step)
    : series_(&series), in_order_(in_order.empty() ? nullptr : in_order.data()), places_(places.of_step.data()) {
    if (first_step > 0)
        search_step(first_step);
    else
        enter();
}

// From the next one on, twice as far each time: it is rarely far.
void PartWalk::search_step(std::uint32_t step) {
    const SampleList& samples = series_->samples;
    const std::size_t left = samples.size() - next_;
    const auto is_before = [&](std::size_t i) {
        const std::size_t at = in_order_ == nullptr ? next_ + i : in_order_[next_ + i];
        return places_[samples[at].step_index] < 2 * step + 1;
    };
    std::size_t reach = 1;
    while (reach < left && is_before(reach - 1)) reach *= 2;
    next_ += find_first(std::min(reach, left), is_before);
    enter();
}

void PartWalk::enter() {
    place_ = std::numeric_limits<std::uint32_t>::max();
    if (next_ == series_->samples.size()) return;
    const std::size_t at = in_order_ == nullptr ? next_ : in_order_[next_];
    const std::span<const Sample> chunk = series_->samples.chunk(at / SampleList::chunk_samples);
    sample_ = &chunk[at % SampleList::chunk_samples];
    chunk_end_ = in_order_ == nullptr ? chunk.data() + chunk.size() : sample_ + 1;
    place_ = places_[sample_->step_index];
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
        const bool has_before = before != nullptr && places_.size() < before->places_.size();
        std::shared_ptr<const StepPlaces> same = has_before ? before->places_[places_.size()] : nullptr;
        if (same == nullptr || same->series->steps != series.steps ||
            same->series->is_superseded != series.is_superseded)
            same = std::make_shared<const StepPlaces>(series, table_steps, attempts);
        places_.push_back(std::move(same));
    }
    sort_disordered();
}

void RankSpans::sort_disordered() {
    for (std::size_t i = 0; i < all_series_->size(); ++i) {
        const RunSeries& series = (*all_series_)[i];
        for (std::size_t j = 0; j < series.phases.size(); ++j) {
            if (!series.phases[j].may_repeat && places_[i]->ascend) continue;
            in_order_.resize(all_series_->size());
            in_order_[i].resize(series.phases.size());
            const SampleList& samples = series.phases[j].samples;
            std::vector<std::size_t>& order = in_order_[i][j];
            order.resize(samples.size());
            std::iota(order.begin(), order.end(), 0);
            const std::vector<std::uint32_t>& places = places_[i]->of_step;
            std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                return places[samples[a].step_index] < places[samples[b].step_index];
            });
        }
    }
    for (std::size_t i = 0; i < in_order_.size(); ++i) in_order_[i].resize((*all_series_)[i].phases.size());
}

void StepWalk::start(const RankSpans& spans) {
    parts_.clear();
    spans.for_each_part(std::nullopt, range_.first, [this](std::uint32_t phase, const PartWalk& walk) {
        parts_.push_back({phase, walk});
    });
    next_parts_.clear();
    if (parts_.size() <= few_parts) return;
    for (std::uint32_t i = 0; i < parts_.size(); ++i) push_next(i);
}

std::span<const StepSpan> StepWalk::next() {
    spans_.clear();
    if (parts_.size() > few_parts) return next_of_many();
    std::uint32_t place = 2 * range_.last;  // of the next step that any part is in
    for (Part& part : parts_) {
        while (part.walk.place() % 2 == 0 && part.walk.place() < place) part.walk.advance();
        place = std::min(place, part.walk.place());
    }
    if (place >= 2 * range_.last) return spans_;
    for (Part& part : parts_)
        for (; part.walk.place() == place; part.walk.advance())
            spans_.push_back({place / 2, part.phase, &part.walk.sample()});
    return spans_;
}

void StepWalk::push_next(std::uint32_t part) {
    PartWalk& walk = parts_[part].walk;
    while (walk.place() % 2 == 0) walk.advance();  // steps that the table leaves out
    if (walk.place() >= 2 * range_.last) return;
    next_parts_.emplace_back(walk.place(), part);
    std::push_heap(next_parts_.begin(), next_parts_.end(), std::greater<>());
}

std::span<const StepSpan> StepWalk::next_of_many() {
    if (next_parts_.empty()) return {};
    const std::uint32_t place = next_parts_.front().first;
    while (!next_parts_.empty() && next_parts_.front().first == place) {
        const std::uint32_t number = next_parts_.front().second;
        std::pop_heap(next_parts_.begin(), next_parts_.end(), std::greater<>());
        next_parts_.pop_back();
        Part& part = parts_[number];
        for (; part.walk.place() == place; part.walk.advance())
            spans_.push_back({place / 2, part.phase, &part.walk.sample()});
        push_next(number);
    }
    return spans_;
}

}  // namespace cep::tool
