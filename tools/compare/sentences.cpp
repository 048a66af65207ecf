// SPDX-License-Identifier: Apache-2.0
#include "compare/comparison.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/units.hpp"

namespace cep::compare {
namespace {

using namespace tool;

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

std::string describe_means(const Change& change) {
    return format_times_ms(change.a.mean_ms, change.b.mean_ms);
}

/// "19.8 % more time": for a decrease, the size is positive too.
std::string describe_size(double change, std::string_view what) {
    return fmt::format("{} % {} {}", percent(std::abs(change)), change > 0 ? "more" : "less", what);
}

/// The sign is that of the change: of a decrease, less time than no time at all is a decrease of less than 0.
std::string describe_interval(const Change& change) {
    const ConfidenceInterval& interval = *change.change_interval;
    const bool is_longer = *change.change > 0;
    return fmt::format("95 % interval {} % to {} %", percent(is_longer ? interval.low : -interval.high),
                       percent(is_longer ? interval.high : -interval.low));
}

std::string describe_share_change(const Change& change) {
    if (!change.a.share || !change.b.share || std::abs(*change.a.share - *change.b.share) < 0.005) return "";
    return fmt::format(", its share of the step from {} % to {} %", percent(*change.a.share), percent(*change.b.share));
}

/// ", in 25 of 100 steps": of a phase that only some have.
std::string describe_steps_with(const Change& change, const Comparison& comparison) {
    const auto all = [](const JobFacts& job) { return job.steps.recorded.size(); };
    if (2 * change.a.steps > all(comparison.a) && 2 * change.b.steps > all(comparison.b)) return "";
    return fmt::format(", in {} of {} steps of A and {} of {} of B", change.a.steps, all(comparison.a), change.b.steps,
                       all(comparison.b));
}

std::string describe_phase(const Change& change, const Comparison& comparison) {
    const std::string per = comparison.same_work.is_step() ? "" : fmt::format(" for a {}", comparison.same_work.unit);
    const std::string size = change.change ? fmt::format(" ({:+.1f} %{})", 100 * *change.change, per) : "";
    return fmt::format("{}{}: {} a step{}{}", change.name, describe_steps_with(change, comparison),
                       describe_means(change), size, describe_share_change(change));
}

void describe_phases(const Comparison& comparison, std::vector<std::string>& sentences) {
    std::vector<const Change*> changed;
    std::size_t undecided = 0;
    for (const Change& change : comparison.phases) {
        if (change.outcome == Outcome::slower || change.outcome == Outcome::faster) changed.push_back(&change);
        undecided += change.outcome == Outcome::undecided;
    }
    std::stable_sort(changed.begin(), changed.end(), [](const Change* a, const Change* b) {
        return std::abs(a->test->shift_ms) > std::abs(b->test->shift_ms);
    });
    for (std::size_t i = 0; i < std::min(changed.size(), max_phases_named); ++i)
        sentences.push_back(describe_phase(*changed[i], comparison));
    if (changed.size() > max_phases_named)
        sentences.push_back(
            fmt::format("{} changed by less", format_plural(changed.size() - max_phases_named, "other phase")));
    if (changed.empty() && undecided < comparison.phases.size())
        sentences.emplace_back("no phase changed significantly");
}

std::string list(const std::optional<std::vector<std::string>>& names) {
    if (!names) return "not known";
    std::string text;
    for (const std::string& name : *names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

void describe_verdict_change(const Verdict& a, const Verdict& b, std::vector<std::string>& sentences) {
    if (a.bound != b.bound)
        sentences.push_back(fmt::format("the bound changed from {} to {}", bound_name(a.bound), bound_name(b.bound)));
    const auto before = name_stragglers(a);
    const auto after = name_stragglers(b);
    if (before != after) sentences.push_back(fmt::format("stragglers: {} in A, {} in B", list(before), list(after)));
}

std::string describe_times(double ratio) {
    if (std::abs(ratio - 2) < 1e-9) return "twice";
    if (std::abs(ratio - 0.5) < 1e-9) return "half";
    return fmt::format("{:.3g} times", ratio);
}

/// "16,384", "1.5e+15".
std::string describe_amount(double amount) {
    return amount < 1e12 ? format_count(static_cast<std::uint64_t>(std::llround(amount)))
                         : fmt::format("{:.4g}", amount);
}

/// "twice the tokens a step", "twice the ranks": what B has and A has not.
std::string describe_work(const Comparison& comparison) {
    const Work& a = comparison.a.steps.work;
    const Work& b = comparison.b.steps.work;
    const auto differ = [](double of_a, double of_b) { return std::abs(of_b / of_a - 1) > 1e-9; };
    const auto of_ranks = [](const Work& work) { return static_cast<double>(work.ranks); };
    const double work_a = a.tokens && b.tokens ? *a.tokens : *a.flops;
    const double work_b = a.tokens && b.tokens ? *b.tokens : *b.flops;
    std::string text;
    if (differ(work_a, work_b))
        text = fmt::format("{} the {}s a step ({} → {})", describe_times(work_b / work_a), comparison.same_work.unit,
                           describe_amount(work_a), describe_amount(work_b));
    if (comparison.same_work.of_devices)
        text += fmt::format("{}{} the ranks ({} → {})", text.empty() ? "" : " and ",
                            describe_times(of_ranks(b) / of_ranks(a)), a.ranks, b.ranks);
    return text;
}

/// "38 % more tokens/s; it has twice the tokens a step (8192 → 16384), and its steps take 45 % more time (…)".
std::string describe_throughput(const Comparison& comparison) {
    const Change& step = *comparison.step;
    const double step_ratio = step.b.mean_ms / step.a.mean_ms;
    const double ranks_ratio =
        static_cast<double>(comparison.b.steps.work.ranks) / static_cast<double>(comparison.a.steps.work.ranks);
    const double slowdown = (1 + *step.change) / (comparison.same_work.of_devices ? ranks_ratio : 1);
    return fmt::format("{}. B has {}, and its steps take {} ({} a step)",
                       describe_size(1 / slowdown - 1, fmt::format("{}s/s", comparison.same_work.unit)),
                       describe_work(comparison), describe_size(step_ratio - 1, "time"), describe_means(step));
}

/// "Steps take 4.2 % less time in B (130.0 → 124.5 ms a step; 95 % interval 3.1 % to 5.3 %)".
std::string describe_significant_step(const Comparison& comparison) {
    const Change& step = *comparison.step;
    if (comparison.same_work.is_step())
        return fmt::format("Steps take {} in B ({} a step; {})", describe_size(*step.change, "time"),
                           describe_means(step), describe_interval(step));
    const std::string_view time = comparison.same_work.of_devices ? "device time" : "time";
    return fmt::format("A {} takes {} in B ({}): {}", comparison.same_work.unit, describe_size(*step.change, time),
                       describe_interval(step), describe_throughput(comparison));
}

/// Steps that take much longer than the typical one, and what they add to the mean.
struct LongSteps {
    std::vector<std::int64_t> steps;
    double added_ms = 0;
};

LongSteps find_long_steps(const JobSteps& job, double typical_ms) {
    constexpr double much_longer = 1.2;
    const std::vector<double>& ms = job.step.with_ms;
    LongSteps found;
    for (std::size_t i = 0; i < ms.size(); ++i) {
        if (ms[i] <= much_longer * typical_ms) continue;
        found.steps.push_back(job.numbers[i]);
        found.added_ms += (ms[i] - typical_ms) / static_cast<double>(ms.size());
    }
    return found;
}

std::string describe_long_steps(const LongSteps& found, const JobSteps& job) {
    if (found.steps.empty()) return "none";
    return fmt::format("{} of {} ({}) add {} to the mean", found.steps.size(), job.step.ms.size(),
                       format_ranges(found.steps, 4), format_duration_ms(found.added_ms));
}

/// Why the mean is not the typical step.
void describe_distribution(const Comparison& comparison, std::vector<std::string>& sentences) {
    constexpr double worth_saying = 0.01;  // of the mean
    if (!comparison.step || !comparison.step->test) return;
    const PhaseSide& a = comparison.step->a;
    const PhaseSide& b = comparison.step->b;
    sentences.push_back(fmt::format("the typical step (median) takes {}, the tail (p99) {}",
                                    format_times_ms(a.median_ms, b.median_ms), format_times_ms(a.p99_ms, b.p99_ms)));
    const LongSteps of_a = find_long_steps(comparison.a.steps, a.median_ms);
    const LongSteps of_b = find_long_steps(comparison.b.steps, b.median_ms);
    if (of_a.added_ms >= worth_saying * a.mean_ms || of_b.added_ms >= worth_saying * b.mean_ms)
        sentences.push_back(fmt::format("steps over 1.2 times the typical one: in A {}; in B {}",
                                        describe_long_steps(of_a, comparison.a.steps),
                                        describe_long_steps(of_b, comparison.b.steps)));
    constexpr std::size_t few = 20;
    if (std::min(comparison.a.steps.step.ms.size(), comparison.b.steps.step.ms.size()) < few)
        sentences.push_back(fmt::format("few steps were recorded: {} in A, {} in B", comparison.a.steps.step.ms.size(),
                                        comparison.b.steps.step.ms.size()));
}

/// "waiting for other ranks" of "exposed communication: waiting for other ranks".
std::string_view last_part(std::string_view meaning) {
    const std::size_t colon = meaning.find(": ");
    return colon == std::string_view::npos ? meaning : meaning.substr(colon + 2);
}

/// From which pieces of the ledger the change of the mean comes.
void describe_pieces(const Comparison& comparison, std::vector<std::string>& sentences) {
    constexpr std::size_t most = 3;
    constexpr double worth_saying = 0.05;  // of the change
    if (!comparison.step || comparison.step->outcome == Outcome::same || !comparison.step->test) return;
    std::vector<PieceChange> pieces = comparison.pieces;
    std::stable_sort(pieces.begin(), pieces.end(), [](const PieceChange& one, const PieceChange& other) {
        return std::abs(one.difference_ms) > std::abs(other.difference_ms);
    });
    std::string text;
    for (std::size_t i = 0; i < std::min(most, pieces.size()); ++i) {
        const PieceChange& piece = pieces[i];
        if (std::abs(piece.difference_ms) < worth_saying * std::abs(comparison.step->test->shift_ms)) break;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", last_part(facts_of(piece.piece).meaning),
                            format_change_ms(piece.difference_ms));
    }
    if (text.empty()) return;
    const bool is_step = comparison.same_work.is_step();
    sentences.push_back(fmt::format("the {} a step{} come from: {}", format_change_ms(comparison.step->test->shift_ms),
                                    is_step ? "" : " of A's work", text));
}

/// The usual reason of a change, so it comes first.
void describe_settings(const Comparison& comparison, std::vector<std::string>& sentences) {
    constexpr std::size_t most = 5;
    const std::vector<SettingChange> changes = changed_settings(comparison.a.settings, comparison.b.settings);
    std::string text;
    for (std::size_t i = 0; i < std::min(most, changes.size()); ++i)
        text += fmt::format("{}{} {} → {}", i == 0 ? "" : ", ", changes[i].name, changes[i].a, changes[i].b);
    if (changes.size() > most) text += fmt::format(" and {} more", changes.size() - most);
    if (!text.empty()) sentences.push_back(fmt::format("settings that differ: {}", text));
}

}  // namespace

std::vector<SettingChange> changed_settings(const Settings& a, const Settings& b) {
    std::vector<SettingChange> changes;
    if (a.empty() || b.empty()) return changes;  // recorded without them
    const std::string none = "not set";
    std::map<std::string_view, std::string_view> of_b(b.begin(), b.end());
    for (const auto& [name, value] : a) {
        const auto other = of_b.find(name);
        if (other == of_b.end())
            changes.push_back({name, value, none});
        else if (other->second != value)
            changes.push_back({name, value, std::string(other->second)});
        of_b.erase(name);
    }
    for (const auto& [name, value] : b)
        if (of_b.contains(name)) changes.push_back({name, none, value});
    return changes;
}

std::string describe_step(const Comparison& comparison) {
    if (!comparison.step) return "The selected spans make no whole steps; only phases are compared.";
    const Change& step = *comparison.step;
    if (step.outcome == Outcome::undecided) return fmt::format("Step times cannot be compared: {}.", step.reason);
    if (!step.change) return "A step took no time in A, so that its change has no percentage.";
    if (step.below_threshold)
        return fmt::format("{}. This is below the threshold of {} %.", describe_significant_step(comparison),
                           percent(comparison.options.threshold));
    if (step.outcome != Outcome::same) return describe_significant_step(comparison) + ".";
    const std::string change =
        fmt::format("did not change significantly: {} % (95 % interval {} % to {} %", signed_percent(*step.change),
                    signed_percent(step.change_interval->low), signed_percent(step.change_interval->high));
    if (comparison.same_work.is_step())
        return fmt::format("The step time {}; {} a step).", change, describe_means(step));
    return fmt::format("The {}time for a {} {}): {}.", comparison.same_work.of_devices ? "device " : "",
                       comparison.same_work.unit, change, describe_throughput(comparison));
}

std::optional<std::vector<std::string>> name_stragglers(const Verdict& verdict) {
    if (verdict.abstained && verdict.stragglers().empty()) return std::nullopt;
    std::vector<std::string> names;
    for (const Finding* const one : verdict.stragglers())
        names.push_back(fmt::format("rank {} in {}", one->typical_rank, one->phase));
    for (const Finding* const one : verdict.groups())
        names.push_back(fmt::format("ranks {} in {}", format_ranges(one->ranks, 4), one->phase));
    return names;
}

std::vector<std::string> describe_reasons(const Comparison& comparison) {
    std::vector<std::string> sentences;
    describe_settings(comparison, sentences);
    describe_pieces(comparison, sentences);
    describe_distribution(comparison, sentences);
    describe_phases(comparison, sentences);
    describe_verdict_change(comparison.a.verdict, comparison.b.verdict, sentences);
    return sentences;
}

}  // namespace cep::compare
