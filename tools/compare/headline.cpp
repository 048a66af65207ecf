// SPDX-License-Identifier: Apache-2.0
#include "compare/headline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::compare {
namespace {

using tool::DurationFormat;
using tool::format_plural;
using tool::printable;

constexpr std::size_t max_phases_told = 3;

/// A fraction as a percentage with as many decimals as it needs to show its size.
std::string percent(double fraction) {
    const double value = 100 * fraction;
    return fmt::format("{:.{}f}", value, std::abs(value) < 1 ? 2 : 1);
}

// A change that vanishes in its digits has no sign.
std::string signed_percent(double fraction) {
    const std::string text = fmt::format("{:+.2f}", 100 * fraction);
    return text == "-0.00" ? "+0.00" : text;
}

/// Of a change downwards, the interval of how much less it is.
std::string describe_size(const Change& change) {
    const double sign = *change.change < 0 ? -1 : 1;
    const double near = sign * (sign > 0 ? change.change_interval->low : change.change_interval->high);
    const double far = sign * (sign > 0 ? change.change_interval->high : change.change_interval->low);
    return fmt::format("{} % {} a step [{}, {}]", percent(sign * *change.change), sign > 0 ? "slower" : "faster",
                       percent(near), percent(far));
}

std::string describe_from_to(const Change& change) {
    const DurationFormat duration(std::min(change.a.median_ms, change.b.median_ms),
                                  std::max(change.a.median_ms, change.b.median_ms));
    return fmt::format("from {} to {}", duration(change.a.median_ms), duration(change.b.median_ms));
}

std::string describe_step(const Comparison& comparison) {
    if (!comparison.step) return "Of the whole step there is nothing in what was asked for.";
    const Change& step = *comparison.step;
    if (step.finding == Finding::undecided)
        return fmt::format("Too little to tell whether a step got faster or slower: {}.", step.reason);
    if (!step.change) return "A step took no time in A, so that there is nothing to compare with.";
    if (step.below_threshold)
        return fmt::format("B is {}, which is below the threshold of {} %.", describe_size(step),
                           percent(comparison.options.threshold));
    if (step.finding == Finding::same)
        return fmt::format("No difference found in the time of a step: {} % [{}, {}].", signed_percent(*step.change),
                           signed_percent(step.change_interval->low), signed_percent(step.change_interval->high));
    return fmt::format("B is {}: {}.", describe_size(step), describe_from_to(step));
}

std::string describe_share_change(const Change& change) {
    if (!change.a.share || !change.b.share || std::abs(*change.a.share - *change.b.share) < 0.005) return "";
    return fmt::format(", its share of the step from {} % to {} %", percent(*change.a.share), percent(*change.b.share));
}

std::string describe_phase(const Change& change) {
    const std::string size = change.change ? fmt::format(" ({:+.1f} %)", 100 * *change.change) : "";
    return fmt::format(" {} went {}{}{}.", printable(change.name), describe_from_to(change), size,
                       describe_share_change(change));
}

std::string describe_phases(const Comparison& comparison) {
    std::vector<const Change*> changed;
    std::size_t undecided = 0;
    for (const Change& change : comparison.phases) {
        if (change.finding == Finding::slower || change.finding == Finding::faster) changed.push_back(&change);
        undecided += change.finding == Finding::undecided;
    }
    std::stable_sort(changed.begin(), changed.end(), [](const Change* a, const Change* b) {
        return std::abs(a->test->shift) > std::abs(b->test->shift);
    });
    std::string text;
    for (std::size_t i = 0; i < std::min(changed.size(), max_phases_told); ++i) text += describe_phase(*changed[i]);
    if (changed.size() > max_phases_told)
        text += fmt::format(" {} changed by less.", format_plural(changed.size() - max_phases_told, "other phase"));
    if (changed.empty() && undecided < comparison.phases.size()) text += " No phase changed by more than chance gives.";
    return text;
}

std::string list_stragglers(const VerdictFacts& verdict) {
    if (!verdict.stragglers) return "not to be told";
    if (verdict.stragglers->empty()) return "none";
    std::string text;
    for (const std::string& name : *verdict.stragglers) text += (text.empty() ? "" : ", ") + name;
    return text;
}

}  // namespace

std::string describe_comparison(const Comparison& comparison) {
    std::string text = describe_step(comparison) + describe_phases(comparison);
    if (comparison.a.verdict && comparison.b.verdict)
        for (const std::string& sentence : describe_verdict_change(*comparison.a.verdict, *comparison.b.verdict))
            text += " " + sentence;
    return text;
}

std::vector<std::string> describe_verdict_change(const VerdictFacts& a, const VerdictFacts& b) {
    std::vector<std::string> sentences;
    if (a.bound != b.bound) sentences.push_back(fmt::format("The bound changed from {} to {}.", a.bound, b.bound));
    if (a.stragglers != b.stragglers)
        sentences.push_back(fmt::format("Stragglers: {} in A, {} in B.", list_stragglers(a), list_stragglers(b)));
    return sentences;
}

std::vector<std::string> describe_differences(const Comparison& comparison) {
    std::vector<std::string> notes;
    const std::uint64_t ranks_a = comparison.a.coverage.ranks_seen;
    const std::uint64_t ranks_b = comparison.b.coverage.ranks_seen;
    if (ranks_a != ranks_b)
        notes.push_back(
            fmt::format("A has {} and B {}", format_plural(ranks_a, "rank"), format_plural(ranks_b, "rank")));
    const bool sum_a = comparison.a.steps.step_is_a_sum;
    const bool sum_b = comparison.b.steps.step_is_a_sum;
    if (sum_a || sum_b)
        notes.push_back(fmt::format("no spans of whole steps in {}: a step is the sum of its outermost phases",
                                    sum_a && sum_b ? "A and B" : (sum_a ? "A" : "B")));
    return notes;
}

}  // namespace cep::compare
