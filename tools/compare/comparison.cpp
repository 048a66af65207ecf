// SPDX-License-Identifier: Apache-2.0
#include "compare/comparison.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/say.hpp"
#include "base/units.hpp"
#include "stats/block_bootstrap.hpp"
#include "stats/quantiles.hpp"
#include "verdict/verdict_document.hpp"

namespace cep::compare {
namespace {

using tool::MeanBootstrap;

constexpr std::uint64_t seed_a = 1;
constexpr std::uint64_t seed_b = 2;

PhaseSide side_of(const PhaseSteps& phase, const MeanBootstrap& mean, const PhaseSteps& step) {
    PhaseSide side;
    side.steps = phase.with_ms.size();
    side.blocks = (phase.ms.size() + mean.block() - 1) / mean.block();
    side.mean_ms = mean.mean();
    side.mean_interval_ms = tool::mean_interval(mean);
    const std::vector<double> quantiles = tool::quantiles_of(phase.with_ms, {0.5, 0.99});
    side.median_ms = quantiles[0];
    side.p99_ms = quantiles[1];
    ConfidenceInterval interval;
    if (tool::median_interval(phase.with_ms, mean.correlation_time(), interval)) side.interval_ms = interval;
    const double step_ms =
        step.ms.empty() ? 0
                        : std::accumulate(step.ms.begin(), step.ms.end(), 0.0) / static_cast<double>(step.ms.size());
    if (step_ms > 0) side.share = side.mean_ms / step_ms;
    return side;
}

/// Why there are too few steps; "" if there are enough.
std::string count_short(std::size_t steps_a, std::size_t steps_b, const CompareOptions& options) {
    const std::size_t needed = std::max(CompareOptions::min_steps, MeanBootstrap::least_blocks * options.block_steps);
    if (std::min(steps_a, steps_b) >= needed) return "";
    return fmt::format("{} and {} recorded steps; each job needs {}{}: record more steps", steps_a, steps_b, needed,
                       needed > CompareOptions::min_steps ? fmt::format(" for blocks of {}", options.block_steps) : "");
}

void test_change(Change& change, const PhaseSteps& a, const PhaseSteps& b, const tool::MeanChange& means,
                 double factor) {
    std::vector<double> of_b = b.ms;
    for (double& ms : of_b) ms *= factor;
    ChangeTest test;
    test.p = test.corrected_p = means.p;
    test.u = tool::count_larger_pairs(a.ms, of_b);
    test.rank_biserial = 2 * test.u / (static_cast<double>(a.ms.size()) * static_cast<double>(b.ms.size())) - 1;
    test.shift_ms = factor * change.b.mean_ms - change.a.mean_ms;
    test.shift_interval_ms = {means.interval.low * change.a.mean_ms, means.interval.high * change.a.mean_ms};
    change.change = means.change;
    if (means.change) change.change_interval = means.interval;
    change.test = test;
}

Change change_of(const PhaseSteps& a, const PhaseSteps& b, const Comparison& comparison) {
    const MeanBootstrap mean_a(a.ms, comparison.options.block_steps, seed_a);
    const MeanBootstrap mean_b(b.ms, comparison.options.block_steps, seed_b);
    Change change;
    change.name = a.name;
    change.kind = a.kind;
    change.correlation_steps = std::max(mean_a.correlation_time(), mean_b.correlation_time());
    change.block_steps = std::max(mean_a.block(), mean_b.block());
    change.a = side_of(a, mean_a, comparison.a.steps.step);
    change.b = side_of(b, mean_b, comparison.b.steps.step);
    change.reason = count_short(a.ms.size(), b.ms.size(), comparison.options);
    const double factor = comparison.same_work.factor;
    if (change.reason.empty()) test_change(change, a, b, tool::compare_means(mean_a, mean_b, factor), factor);
    return change;
}

Change change_of_one(const PhaseSteps& phase, Outcome outcome, const PhaseSteps& step) {
    Change change;
    change.name = phase.name;
    change.kind = phase.kind;
    change.outcome = outcome;
    (outcome == Outcome::only_a ? change.a : change.b) = side_of(phase, MeanBootstrap(phase.ms, 0, seed_a), step);
    return change;
}

void decide(Change& change, const CompareOptions& options) {
    if (!change.test) return;
    change.outcome = Outcome::same;
    const double shift_ms = change.test->shift_ms;
    if (change.test->corrected_p > CompareOptions::alpha || shift_ms == 0) return;
    change.below_threshold = change.change && std::abs(*change.change) < options.threshold;
    if (!change.below_threshold) change.outcome = shift_ms > 0 ? Outcome::slower : Outcome::faster;
}

void correct_phases(std::vector<Change>& phases) {
    std::vector<double> p_values;
    for (const Change& change : phases)
        if (change.test) p_values.push_back(change.test->p);
    const std::vector<double> corrected = tool::correct_by_holm(p_values);
    std::size_t next = 0;
    for (Change& change : phases)
        if (change.test) change.test->corrected_p = corrected[next++];
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
        return std::max(one.a.mean_ms, one.b.mean_ms) > std::max(other.a.mean_ms, other.b.mean_ms);
    });
    return phases;
}

bool differ(const std::optional<double>& a, const std::optional<double>& b) {
    return a && b && std::abs(*a - *b) > 1e-9 * std::max(*a, *b);
}

/// Where the work of a step is not known, a step of B is taken to do what one of A does, on whatever ranks.
SameWork find_same_work(const Work& a, const Work& b) {
    const bool by_tokens = a.tokens && b.tokens;
    const auto& work_a = by_tokens ? a.tokens : a.flops;
    const auto& work_b = by_tokens ? b.tokens : b.flops;
    const bool other_ranks = work_a && work_b && a.ranks != b.ranks;
    if (!other_ranks && !differ(work_a, work_b)) return {};
    const double factor = *work_a / *work_b;
    return {by_tokens ? "token" : "FLOP", other_ranks,
            other_ranks ? factor * static_cast<double>(b.ranks) / static_cast<double>(a.ranks) : factor};
}

std::vector<PieceChange> compare_pieces(const Comparison& comparison) {
    std::vector<PieceChange> pieces;
    for (std::size_t i = 0; i < tool::piece_count; ++i) {
        const double a_ms = comparison.a.steps.pieces[i];
        const double b_ms = comparison.b.steps.pieces[i];
        if (a_ms == 0 && b_ms == 0) continue;
        pieces.push_back({tool::TimeKind(i), a_ms, b_ms, comparison.same_work.factor * b_ms - a_ms});
    }
    return pieces;
}

}  // namespace

bool Comparison::any(Outcome outcome) const {
    if (step && step->outcome == outcome) return true;
    return std::any_of(phases.begin(), phases.end(),
                       [outcome](const Change& change) { return change.outcome == outcome; });
}

JobFacts facts_of_job(std::string_view command, const std::string& side, const std::string& name, const tool::Job& job,
                      tool::Verdict verdict) {
    JobFacts facts;
    facts.name = name;
    facts.inputs = job.inputs;
    facts.coverage = job.coverage;
    facts.steps = collect_steps(job, verdict.ledger);
    if (facts.steps.folded_phases > 0)
        tool::say("cep {}: {}: the {} with the least time are compared as one, \"other phases\"\n", command, side,
                  tool::format_plural(facts.steps.folded_phases, "phase"));
    if (verdict.folded_phases > 0) tool::say("cep {}: {}: {}\n", command, side, tool::describe_folded_phases(verdict));
    facts.verdict = std::move(verdict);
    facts.settings = tool::find_settings(job.ranks).usual;
    facts.verdict.ledger = {};  // what is compared of it is in the steps
    return facts;
}

Comparison compare_jobs(JobFacts a, JobFacts b, const CompareOptions& options) {
    const SameWork same_work = find_same_work(a.steps.work, b.steps.work);
    Comparison comparison{std::move(a), std::move(b), options, same_work, {}, {}, {}};
    const PhaseSteps& step_a = comparison.a.steps.step;
    const PhaseSteps& step_b = comparison.b.steps.step;
    if (!step_a.ms.empty() && !step_b.ms.empty()) {
        comparison.step = change_of(step_a, step_b, comparison);
        const bool is_timed = comparison.a.steps.is_timed && comparison.b.steps.is_timed;
        if (!is_timed && comparison.a.steps.has_step_spans != comparison.b.steps.has_step_spans) {
            comparison.step->test.reset();
            comparison.step->reason = "only one of the jobs has spans of whole steps";
        }
        decide(*comparison.step, options);
        comparison.pieces = compare_pieces(comparison);
    }
    comparison.phases = compare_phases(comparison);
    return comparison;
}

}  // namespace cep::compare
