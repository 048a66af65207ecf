// SPDX-License-Identifier: Apache-2.0
#include "compare/sentences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"

namespace cep::compare {
namespace {

using tool::format_plural;
using tool::format_times_ms;

constexpr std::size_t max_phases_named = 3;

/// A fraction in percent, with as many decimals as it needs to show its size.
std::string percent(double fraction) {
    const double value = 100 * fraction;
    return fmt::format("{:.{}f}", value, std::abs(value) < 1 ? 2 : 1);
}

// A change that vanishes in its digits has no sign.
std::string signed_percent(double fraction) {
    const std::string text = fmt::format("{:+.2f}", 100 * fraction);
    return text == "-0.00" ? "+0.00" : text;
}

std::string describe_medians(const Change& change) {
    return format_times_ms(change.a.median_ms, change.b.median_ms);
}

/// For a decrease, the size and its interval are positive too.
std::string describe_significant_step(const Change& step) {
    const bool is_longer = *step.change > 0;
    const ConfidenceInterval& interval = *step.change_interval;
    return fmt::format("Steps take {} % {} time in B ({}; 95 % interval {} % to {} %)", percent(std::abs(*step.change)),
                       is_longer ? "more" : "less", describe_medians(step),
                       percent(is_longer ? interval.low : -interval.high),
                       percent(is_longer ? interval.high : -interval.low));
}

std::string describe_share_change(const Change& change) {
    if (!change.a.share || !change.b.share || std::abs(*change.a.share - *change.b.share) < 0.005) return "";
    return fmt::format(", its share of the step from {} % to {} %", percent(*change.a.share), percent(*change.b.share));
}

std::string describe_phase(const Change& change) {
    const std::string size = change.change ? fmt::format(" ({:+.1f} %)", 100 * *change.change) : "";
    return fmt::format("{}: {}{}{}.", change.name, describe_medians(change), size, describe_share_change(change));
}

void describe_phases(const Comparison& comparison, std::vector<std::string>& sentences) {
    std::vector<const Change*> changed;
    std::size_t undecided = 0;
    for (const Change& change : comparison.phases) {
        if (change.outcome == Outcome::slower || change.outcome == Outcome::faster) changed.push_back(&change);
        undecided += change.outcome == Outcome::undecided;
    }
    std::stable_sort(changed.begin(), changed.end(), [](const Change* a, const Change* b) {
        return std::abs(a->test->shift) > std::abs(b->test->shift);
    });
    for (std::size_t i = 0; i < std::min(changed.size(), max_phases_named); ++i)
        sentences.push_back(describe_phase(*changed[i]));
    if (changed.size() > max_phases_named)
        sentences.push_back(
            fmt::format("{} changed by less.", format_plural(changed.size() - max_phases_named, "other phase")));
    if (changed.empty() && undecided < comparison.phases.size())
        sentences.emplace_back("No phase changed significantly.");
}

std::string list(const std::optional<std::vector<std::string>>& names) {
    if (!names) return "not known";
    std::string text;
    for (const std::string& name : *names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

void describe_verdict_change(const tool::Verdict& a, const tool::Verdict& b, std::vector<std::string>& sentences) {
    if (a.bound != b.bound)
        sentences.push_back(fmt::format("The bound changed from {} to {}.", bound_name(a.bound), bound_name(b.bound)));
    const auto before = name_stragglers(a);
    const auto after = name_stragglers(b);
    if (before != after) sentences.push_back(fmt::format("Stragglers: {} in A, {} in B.", list(before), list(after)));
}

}  // namespace

std::string describe_step(const Comparison& comparison) {
    if (!comparison.step) return "The selected spans make no whole steps; only phases are compared.";
    const Change& step = *comparison.step;
    if (step.outcome == Outcome::undecided) return fmt::format("Step times cannot be compared: {}.", step.reason);
    if (!step.change) return "A step took no time in A, so that its change has no percentage.";
    if (step.below_threshold)
        return fmt::format("{}, which is below the threshold of {} %.", describe_significant_step(step),
                           percent(comparison.options.threshold));
    if (step.outcome == Outcome::same)
        return fmt::format("The step time did not change significantly: {} % (95 % interval {} % to {} %).",
                           signed_percent(*step.change), signed_percent(step.change_interval->low),
                           signed_percent(step.change_interval->high));
    return describe_significant_step(step) + ".";
}

std::optional<std::vector<std::string>> name_stragglers(const tool::Verdict& verdict) {
    if (verdict.abstained && verdict.stragglers.empty()) return std::nullopt;
    std::vector<std::string> names;
    for (const tool::StragglerFact& straggler : verdict.stragglers)
        names.push_back(fmt::format("rank {} in {}", straggler.rank, straggler.phase));
    for (const tool::GroupFact& group : verdict.groups)
        names.push_back(fmt::format("ranks {} in {}", tool::format_ranges(group.slow_ranks, 4), group.typical.phase));
    return names;
}

std::vector<std::string> describe_reasons(const Comparison& comparison) {
    std::vector<std::string> sentences;
    describe_phases(comparison, sentences);
    describe_verdict_change(comparison.a.verdict, comparison.b.verdict, sentences);
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
