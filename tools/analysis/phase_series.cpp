// SPDX-License-Identifier: Apache-2.0
#include "phase_series.hpp"

#include <algorithm>

namespace cep::analysis {
namespace {

// The finaliser of SplitMix64.
std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return bits ^ (bits >> 31);
}

// Without a start time, rows of one phase and step cannot be told from each other.
std::uint32_t identity_of(const Row& row) {
    if (!row.start_ns) return 0;
    const std::uint64_t hash = mix(static_cast<std::uint64_t>(*row.start_ns) ^
                                   mix(static_cast<std::uint64_t>(row.seq.value_or(0)) + 0x9e3779b97f4a7c15U));
    return Sample::identified | static_cast<std::uint32_t>(hash & Sample::identity_mask);
}

}  // namespace

void Totals::add(double duration_ms, bool is_top_level) {
    ++count;
    sum_ms += duration_ms;
    if (is_top_level) top_level_ms += duration_ms;
    min_ms = std::min(min_ms, duration_ms);
    max_ms = std::max(max_ms, duration_ms);
}

void Totals::merge(const Totals& other) {
    count += other.count;
    sum_ms += other.sum_ms;
    top_level_ms += other.top_level_ms;
    min_ms = std::min(min_ms, other.min_ms);
    max_ms = std::max(max_ms, other.max_ms);
}

void PhaseSeries::fold() {
    for (const Sample& sample : samples) {
        histogram.add(sample.duration_ms);
        in_histogram.add(sample.duration_ms, (sample.bits & Sample::top_level) != 0);
    }
    samples = {};
}

PhaseSeries& RunSeries::phase_of(const Row& row) {
    const auto [found, is_new] = phase_indices_.try_emplace(std::string(row.name), phases.size());
    if (is_new) {
        phases.emplace_back();
        phases.back().name = row.name;
        phases.back().kind = row.kind;
        phases.back().clock = row.clock;
    }
    PhaseSeries& phase = phases[found->second];
    phase.clock = combine(phase.clock, row.clock);
    return phase;
}

std::uint32_t RunSeries::index_of_step(std::int64_t step) {
    if (!steps.empty() && steps.back() == step) return static_cast<std::uint32_t>(steps.size() - 1);
    const auto [found, is_new] = step_indices_.try_emplace(step, static_cast<std::uint32_t>(steps.size()));
    if (is_new) steps.push_back(step);
    return found->second;
}

void RunSeries::add(const Row& row, SampleBudget& budget) {
    PhaseSeries& phase = phase_of(row);
    const bool is_top_level = row.depth.value_or(0) == 0;
    const Sample sample{row.duration_ms, index_of_step(*row.step),
                        identity_of(row) | (is_top_level ? Sample::top_level : 0)};
    if (!budget.take()) {
        phase.fold();
        phase.histogram.add(row.duration_ms);
        phase.in_histogram.add(row.duration_ms, is_top_level);
        return;
    }
    if (!phase.samples.empty()) {
        const Sample& last = phase.samples.back();
        const bool alike = last.step_index == sample.step_index && last.bits == sample.bits && has_run &&
                           (sample.bits & Sample::identified) != 0;
        phase.may_repeat |= alike || steps[sample.step_index] < steps[last.step_index];
    }
    phase.samples.push_back(sample);
}

void RunSeries::seal() {
    step_indices_ = {};
}

PhaseSeries* RunSeries::find(const std::string& name) {
    const auto found = phase_indices_.find(name);
    return found == phase_indices_.end() ? nullptr : &phases[found->second];
}

Clock combine(Clock a, Clock b) {
    if (a == b) return a;
    return Clock::mixed;
}

}  // namespace cep::analysis
