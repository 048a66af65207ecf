// SPDX-License-Identifier: Apache-2.0
#include "model/phase_series.hpp"

namespace cep::tool {

void Totals::merge(const Totals& other) {
    count += other.count;
    sum_ms += other.sum_ms;
    min_ms = std::min(min_ms, other.min_ms);
    max_ms = std::max(max_ms, other.max_ms);
}

Totals totals_of(const PhaseSeries& phase) {
    if (!phase.has_all_steps()) return phase.of_all_steps;
    Totals totals;
    for (const Sample& sample : phase.samples) totals.add(sample.duration_ms);
    return totals;
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

PhaseSeries* RunSeries::find(std::string_view name) {
    const auto found =
        std::find_if(phases.begin(), phases.end(), [name](const PhaseSeries& phase) { return phase.name == name; });
    return found == phases.end() ? nullptr : &*found;
}

}  // namespace cep::tool
