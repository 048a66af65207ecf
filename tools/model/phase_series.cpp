// SPDX-License-Identifier: Apache-2.0
#include "model/phase_series.hpp"

#include <algorithm>
#include <utility>

namespace cep::tool {

void Totals::merge(const Totals& other) {
    count += other.count;
    sum_ms += other.sum_ms;
    top_level_ms += other.top_level_ms;
    min_ms = std::min(min_ms, other.min_ms);
    max_ms = std::max(max_ms, other.max_ms);
}

Totals totals_of(const PhaseSeries& phase) {
    if (!phase.has_all_steps()) return phase.of_all_steps;
    Totals totals;
    for (const Sample& sample : phase.samples) totals.add(sample);
    return totals;
}

// As many as there are phases for one that is not known.
std::uint32_t RunSeries::find_known_phase(std::string_view name) {
    constexpr std::size_t few = 16;  // so few are looked through as fast
    const auto count = static_cast<std::uint32_t>(phases.size());
    if (count < few) {
        for (std::uint32_t i = 0; i < count; ++i)
            if (same_text(phases[i].name, name)) return i;
        return count;
    }
    for (auto i = static_cast<std::uint32_t>(phase_indices_.size()); i < count; ++i)
        phase_indices_.try_emplace(phases[i].name, i);
    const auto known = phase_indices_.find(std::string(name));
    return known != phase_indices_.end() ? known->second : count;
}

std::uint32_t RunSeries::find_phase(const Row& row) {
    const auto count = static_cast<std::uint32_t>(phases.size());
    if (const std::uint32_t known = find_known_phase(row.name); known < count) return known;
    PhaseSeries& phase = phases.emplace_back();
    phase.name = row.name;
    phase.kind = row.kind;
    phase.clock = row.clock;
    next_phases_.push_back({count, count});
    return count;
}

// Behind a phase that comes several times in a step, such as a reduction in buckets, there are two.
std::uint32_t RunSeries::find_next_phase(const Row& row) {
    if (phases.empty()) return find_phase(row);
    const NextPhases expected = next_phases_[last_phase_];
    const std::uint32_t found = same_text(phases[expected.other].name, row.name) ? expected.other : find_phase(row);
    next_phases_[last_phase_] = {found, expected.first};
    return found;
}

// The message of a row of the phase that came last.
CommMessage RunSeries::add_comm(const Row& row, PhaseSeries& phase, SampleBudget& budget, Sample& sample) {
    if (comm == nullptr) comm = std::make_shared<CommSeries>();
    CommMessage message;
    const CollectiveKey& key = comm->take(row, run, last_phase_, budget, sample, message);
    phase.is_counted |= CollectiveKey::is_counted(row);
    phase.may_share_name |= !key.is_placed();
    return message;
}

bool RunSeries::admits_channel(const Row& row, SampleBudget& budget) {
    const bool is_expected = !phases.empty() && same_text(phases[next_phases_[last_phase_].first].name, row.name);
    const std::uint32_t phase = is_expected ? next_phases_[last_phase_].first : find_known_phase(row.name);
    return comm->admits(row, run, phase < phases.size() ? std::optional(phase) : std::nullopt, budget);
}

void RunSeries::enter_step(std::int64_t step) {
    const std::size_t known = steps.size();
    last_step_ = find_step(step);
    halvings_of_step_ = StepChoice::halvings_of(step);
    if (steps.size() == known) return;
    if (step_counts_.size() <= halvings_of_step_) step_counts_.resize(halvings_of_step_ + 1);
    ++step_counts_[halvings_of_step_];
}

StepTally RunSeries::step_tally() const {
    StepTally tally;
    for (unsigned i = 0; i < step_counts_.size(); ++i) tally.add(i, step_counts_[i]);
    return tally;
}

void RunSeries::thin(StepChoice choice) {
    if (choice.keeps_all()) return;
    std::vector<bool> is_kept(steps.size());
    for (std::size_t i = 0; i < is_kept.size(); ++i) is_kept[i] = choice.keeps(steps[i]);
    for (PhaseSeries& phase : phases) {
        if (phase.has_all_steps()) phase.of_all_steps = totals_of(phase);
        phase.erase_samples_if([&](const Sample& sample) { return !is_kept[sample.step_index]; });
    }
}

std::uint32_t RunSeries::find_step(std::int64_t step) {
    if (steps_ascend_ && (steps.empty() || steps.back() < step)) {
        steps.push_back(step);
        return static_cast<std::uint32_t>(steps.size() - 1);
    }
    if (steps_ascend_) {
        const auto found = std::lower_bound(steps.begin(), steps.end(), step);
        if (*found == step) return static_cast<std::uint32_t>(found - steps.begin());
        steps_ascend_ = false;
        for (std::size_t i = 0; i < steps.size(); ++i) step_indices_[steps[i]] = static_cast<std::uint32_t>(i);
    }
    const auto [found, is_new] = step_indices_.try_emplace(step, static_cast<std::uint32_t>(steps.size()));
    if (is_new) steps.push_back(step);
    return found->second;
}

void RunSeries::add_stride_change(const StrideChange& change) {
    if (stride) {
        stride->add(change);
    } else {
        stride = change;
    }
}

// The counters of a step come in the same order in every step.
void RunSeries::add_counter(const Row& row) {
    std::size_t index = next_counter_;
    if (index >= counters.size() || counters[index].name != row.name) {
        const auto [known, is_new] = counter_indices_.try_emplace(std::string(row.name), counters.size());
        if (is_new) counters.emplace_back().name = row.name;
        index = known->second;
    }
    counters[index].add(*row.step, row.value);
    next_counter_ = (index + 1) % counters.size();
}

void RunSeries::seal() {
    phase_indices_ = {};
    next_phases_ = {};
    if (comm != nullptr) comm->seal();
    if (comm != nullptr && !comm->keeps_messages()) comm = nullptr;
    step_counts_ = {};
    step_indices_ = {};
    counter_indices_ = {};
    // The end of a large vector that was never written to takes no memory; the ends of many small ones do.
    constexpr std::size_t large = 8192;
    if (steps.size() < large) steps.shrink_to_fit();
    if (phases.size() < large) phases.shrink_to_fit();
    for (PhaseSeries& phase : phases) phase.samples.seal();
    std::sort(counters.begin(), counters.end(),
              [](const CounterSeries& a, const CounterSeries& b) { return a.name < b.name; });
}

PhaseSeries* RunSeries::find(std::string_view name) {
    const auto found =
        std::find_if(phases.begin(), phases.end(), [name](const PhaseSeries& phase) { return phase.name == name; });
    return found == phases.end() ? nullptr : &*found;
}

}  // namespace cep::tool
