// SPDX-License-Identifier: Apache-2.0
#include "compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "stats/autocorrelation.hpp"
#include "stats/robust.hpp"

namespace cep::compare {
namespace {

using tool::median_of;

PhaseSide side_of(const PhaseSteps& phase, double correlation_steps, const PhaseSteps& step) {
    PhaseSide side;
    side.steps = phase.steps.size();
    side.median_ms = median_of(phase.durations_ms);
    ConfidenceInterval interval;
    if (median_interval(phase.durations_ms, correlation_steps, interval)) side.interval_ms = interval;
    const double step_ms = step.steps.empty() ? 0 : median_of(step.durations_ms);
    if (step_ms > 0) side.share = side.median_ms / step_ms;
    return side;
}

std::size_t block_steps_for(const CompareOptions& options, const Change& change) {
    const std::size_t longest = std::max(change.a.steps, change.b.steps);
    const std::size_t shortest = std::min(change.a.steps, change.b.steps);
    const std::size_t wanted =
        options.block_steps > 0 ? options.block_steps : choose_block_steps(change.correlation_steps, shortest);
    return std::max(wanted, (longest + CompareOptions::max_blocks - 1) / CompareOptions::max_blocks);
}

void test_change(Change& change, const PhaseSteps& a, const PhaseSteps& b) {
    const std::vector<double> blocks_a = block_medians(a.durations_ms, change.block_steps);
    const std::vector<double> blocks_b = block_medians(b.durations_ms, change.block_steps);
    change.a.blocks = blocks_a.size();
    change.b.blocks = blocks_b.size();
    if (std::min(blocks_a.size(), blocks_b.size()) < CompareOptions::min_blocks) {
        change.reason = fmt::format("{} and {} blocks of {} recorded steps; each job needs {}: record more steps",
                                    blocks_a.size(), blocks_b.size(), change.block_steps, CompareOptions::min_blocks);
        return;
    }
    change.test = test_ranks(blocks_a, blocks_b);
    change.corrected_p = change.test->p;
    if (change.a.median_ms <= 0) return;
    const ConfidenceInterval& shift = change.test->shift_interval;
    change.change = change.test->shift / change.a.median_ms;
    change.change_interval = ConfidenceInterval{shift.low / change.a.median_ms, shift.high / change.a.median_ms};
}

Change change_of(const PhaseSteps& a, const PhaseSteps& b, const Comparison& comparison) {
    Change change;
    change.name = a.name;
    change.kind = a.kind;
    change.correlation_steps = correlation_time_steps({a.durations_ms, b.durations_ms});
    change.a = side_of(a, change.correlation_steps, comparison.a.steps.step);
    change.b = side_of(b, change.correlation_steps, comparison.b.steps.step);
    change.block_steps = block_steps_for(comparison.options, change);
    test_change(change, a, b);
    return change;
}

Change change_of_one(const PhaseSteps& phase, Outcome outcome, const PhaseSteps& step) {
    Change change;
    change.name = phase.name;
    change.kind = phase.kind;
    change.outcome = outcome;
    (outcome == Outcome::only_a ? change.a : change.b) =
        side_of(phase, correlation_time_steps({phase.durations_ms}), step);
    return change;
}

void decide(Change& change, const CompareOptions& options) {
    if (!change.test) return;
    change.outcome = Outcome::same;
    const double shift = change.test->shift;
    if (change.corrected_p > CompareOptions::alpha || shift == 0) return;
    change.below_threshold = change.change && std::abs(*change.change) < options.threshold;
    if (!change.below_threshold) change.outcome = shift > 0 ? Outcome::slower : Outcome::faster;
}

void correct_phases(std::vector<Change>& phases) {
    std::vector<double> p_values;
    for (const Change& change : phases)
        if (change.test) p_values.push_back(change.test->p);
    const std::vector<double> corrected = correct_by_holm(p_values);
    std::size_t next = 0;
    for (Change& change : phases)
        if (change.test) change.corrected_p = corrected[next++];
}

const PhaseSteps* find_phase(const JobSteps& job, const std::string& name) {
    for (const PhaseSteps& phase : job.phases)
        if (phase.name == name) return &phase;
    return nullptr;
}

std::vector<Change> compare_phases(const Comparison& comparison) {
    std::vector<Change> phases;
    const JobSteps& a = comparison.a.steps;
    const JobSteps& b = comparison.b.steps;
    for (const PhaseSteps& phase : a.phases) {
        const PhaseSteps* const of_b = find_phase(b, phase.name);
        phases.push_back(of_b != nullptr ? change_of(phase, *of_b, comparison)
                                         : change_of_one(phase, Outcome::only_a, a.step));
    }
    for (const PhaseSteps& phase : b.phases)
        if (find_phase(a, phase.name) == nullptr) phases.push_back(change_of_one(phase, Outcome::only_b, b.step));
    correct_phases(phases);
    for (Change& change : phases) decide(change, comparison.options);
    std::stable_sort(phases.begin(), phases.end(), [](const Change& one, const Change& other) {
        return std::max(one.a.median_ms, one.b.median_ms) > std::max(other.a.median_ms, other.b.median_ms);
    });
    return phases;
}

}  // namespace

bool Comparison::any(Outcome outcome) const {
    if (step && step->outcome == outcome) return true;
    return std::any_of(phases.begin(), phases.end(),
                       [outcome](const Change& change) { return change.outcome == outcome; });
}

Comparison compare_jobs(JobFacts a, JobFacts b, const CompareOptions& options) {
    Comparison comparison{std::move(a), std::move(b), options, {}, {}};
    const PhaseSteps& step_a = comparison.a.steps.step;
    const PhaseSteps& step_b = comparison.b.steps.step;
    if (!step_a.steps.empty() && !step_b.steps.empty()) {
        comparison.step = change_of(step_a, step_b, comparison);
        if (comparison.a.steps.step_is_a_sum != comparison.b.steps.step_is_a_sum) {
            comparison.step->test.reset();
            comparison.step->reason = "only one of the jobs has spans of whole steps";
        }
        decide(*comparison.step, options);
    }
    comparison.phases = compare_phases(comparison);
    return comparison;
}

}  // namespace cep::compare
