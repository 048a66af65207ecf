// SPDX-License-Identifier: Apache-2.0
#include "verdict/changes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/units.hpp"
#include "ledger/table_quantiles.hpp"
#include "stats/change_points.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

std::vector<double> values_at(const std::vector<double>& values, std::span<const std::size_t> indices) {
    std::vector<double> chosen;
    chosen.reserve(indices.size());
    for (const std::size_t index : indices) chosen.push_back(values[index]);
    return chosen;
}

double longest_over_ranks(const StepMatrix& ms, std::size_t step) {
    double longest_ms = 0;
    for (std::size_t rank = 0; rank < ms.ranks(); ++rank)
        if (!is_missing(ms.at(rank, step))) longest_ms = std::max(longest_ms, ms.at(rank, step));
    return longest_ms;
}

/// "steadily", "in 3 stairs"; "" if it is neither.
std::string how_gradual(const ChangePoint& change) {
    if (change.shape == ChangeShape::ramp) return "steadily";
    return change.shape == ChangeShape::stair ? fmt::format("in {} stairs", change.stairs) : "";
}

class History {
  public:
    History(const JobTable& table, const std::vector<double>& straggler_ms, const NumberRanges& marks)
        : table_(table), step_ms_(table.median_step_ms), marks_(marks) {
        for (std::size_t step = 0; step < step_ms_.size(); ++step) step_ms_[step] -= straggler_ms[step];
        has_straggler_ = std::any_of(straggler_ms.begin(), straggler_ms.end(), [](double ms) { return ms > 0; });
    }

    EventFacts find(std::vector<Finding>& findings) {
        for (std::size_t step = 0; step < step_ms_.size(); ++step)
            if (step_ms_[step] > 0) present_.push_back(step);
        find_events();
        if (const double all_ms = sum_ms(table_.median_step_ms); all_ms > 0)
            events_.unmarked_share = events_.unmarked_excess_ms / all_ms;
        std::vector<Finding> changes = find_changes();
        std::move(changes.begin(), changes.end(), std::back_inserter(findings));
        return std::move(events_);
    }

  private:
    void find_events() {
        constexpr std::size_t reach = 8;
        constexpr double much_longer = 1.5;
        const std::vector<double> usuals_ms = moving_medians(values_at(step_ms_, present_), reach);
        for (std::size_t i = 0; i < present_.size(); ++i) {
            const double usual_ms = usuals_ms[i];
            const double ms = step_ms_[present_[i]];
            if (ms < much_longer * usual_ms || is_of_slow_rank(present_[i], usual_ms)) continue;
            const std::int64_t step = table_.steps[present_[i]];
            const bool marked = marks_.contains(step);
            (marked ? events_.marked_steps : events_.unmarked_steps).push_back(step);
            (marked ? events_.marked_excess_ms : events_.unmarked_excess_ms) += ms - usual_ms;
            if (!marked) unmarked_.push_back(present_[i]);
        }
        name_events();
    }

    /// Whether slow ranks explain most of what it takes longer. The rest may be of the step before: for what a rank
    /// does behind its last collective, the others wait in the next step.
    [[nodiscard]] bool is_of_slow_rank(std::size_t step, double usual_ms) const {
        return table_.median_step_ms[step] - step_ms_[step] > step_ms_[step] - usual_ms;
    }

    /// Names the phase that has most of what the unmarked steps take longer, if one has.
    void name_events() {
        if (unmarked_.empty()) return;
        double most_ms = events_.unmarked_excess_ms / 2;
        for (const LocalPhase& phase : table_.local) {
            const double excess_ms = find_event_excess_ms(phase.own_ms);
            if (excess_ms < most_ms) continue;
            most_ms = excess_ms;
            events_.unmarked_phase = phase.name;
        }
    }

    /// By how much the longest over ranks exceeds, in the unmarked steps, that of a typical step.
    [[nodiscard]] double find_event_excess_ms(const StepMatrix& ms) const {
        constexpr std::size_t enough = 32;
        std::vector<double> usual;
        for (std::size_t i = 0; i < present_.size(); i += 1 + present_.size() / enough)
            usual.push_back(longest_over_ranks(ms, present_[i]));
        double excess_ms = -median_of(usual) * static_cast<double>(unmarked_.size());
        for (const std::size_t step : unmarked_) excess_ms += longest_over_ranks(ms, step);
        return excess_ms;
    }

    /// A change point, and the steps before and after it, up to the next ones.
    struct Sides {
        ChangePoint point;
        std::span<const std::size_t> before;
        std::span<const std::size_t> after;

        [[nodiscard]] double sign() const { return point.relative() > 0 ? 1 : -1; }
        /// By how much what is typical, or else the mean, is more after than before.
        [[nodiscard]] double difference(const std::vector<double>& values) const {
            return level_of(values_at(values, after)) - level_of(values_at(values, before));
        }

      private:
        [[nodiscard]] double level_of(const std::vector<double>& values) const {
            return point.is_typical ? median_of(values) : mean_of(values);
        }
    };

    [[nodiscard]] static Sides sides_of(const ChangePoint& point, std::span<const std::size_t> indices) {
        const std::size_t after = point.after_first();
        return {point, indices.subspan(point.begin, point.first - point.begin),
                indices.subspan(after, point.after_last() - after)};
    }

    [[nodiscard]] std::vector<Finding> find_changes() const {
        std::vector<Finding> changes;
        std::vector<std::size_t> indices;
        for (const std::size_t step : present_)
            if (!marks_.contains(table_.steps[step])) indices.push_back(step);
        std::vector<Sides> all_sides;
        for (const ChangePoint& point : find_change_points(values_at(step_ms_, indices))) {
            const Sides sides = sides_of(point, indices);
            if (is_hidden(sides) || is_of_straggler(sides)) continue;
            all_sides.push_back(sides);
            changes.push_back(change_of(point, indices));
        }
        if (!changes.empty()) find_phases(all_sides, changes);
        return changes;
    }

    /// What a straggler costs is an estimate, and while it sets the pace, a change of the others costs nothing: steps
    /// as they were have to change, too.
    [[nodiscard]] bool is_hidden(const Sides& sides) const {
        constexpr double least = 0.5;
        return sides.sign() * sides.difference(table_.median_step_ms) <= least * std::abs(sides.difference(step_ms_));
    }

    /// Where some rank is slow, that it grows slower before it is clearly so is no change of the others: they wait.
    [[nodiscard]] bool is_of_straggler(const Sides& sides) const {
        constexpr double most = 0.5;
        if (!has_straggler_) return false;
        const double waiting_ms = sides.difference(quantiles_over_ranks(table_.wait_ms, 0.5));
        return sides.sign() * waiting_ms > most * std::abs(sides.difference(table_.median_step_ms));
    }

    // Of a burst, the last step is its own; of a stair or ramp, the first one after it; else the first one.
    [[nodiscard]] Finding change_of(const ChangePoint& point, std::span<const std::size_t> indices) const {
        const bool is_burst = point.shape == ChangeShape::burst;
        const std::size_t last = is_burst ? point.last - 1 : std::min(point.last, indices.size() - 1);
        Finding change{.kind = FindingKind::change};
        change.first_step = table_.steps[indices[point.first]];
        change.last_step = table_.steps[indices[last]];
        change.usual_ms = point.is_typical ? point.before.typical : point.before.mean;
        change.slow_ms = point.is_typical ? point.after.typical : point.after.mean;
        change.slowdown = *change.slow_ms / *change.usual_ms;
        change.is_costly = change.slowdown > 1;
        change.change = point;
        return change;
    }

    void find_phases(const std::vector<Sides>& all_sides, std::vector<Finding>& changes) const {
        const auto consider = [&](const std::string& name, const StepMatrix& ms) {
            const std::vector<double> medians = quantiles_over_ranks(ms, 0.5);
            for (std::size_t i = 0; i < all_sides.size(); ++i) {
                Finding& change = changes[i];
                const double sign = all_sides[i].sign();
                const double difference = all_sides[i].difference(medians);
                if (is_missing(difference) || sign * difference <= sign * change.excess_ms) continue;
                change.phase = name;
                change.excess_ms = difference;
            }
        };
        for (const LocalPhase& phase : table_.local) consider(phase.name, phase.own_ms);
        if (table_.has_comm) consider("communication", table_.exposed_ms);
    }

    const JobTable& table_;
    std::vector<double> step_ms_;  // without what stragglers cost
    const NumberRanges& marks_;
    bool has_straggler_ = false;
    std::vector<std::size_t> present_;
    std::vector<std::size_t> unmarked_;  // steps of unmarked events
    EventFacts events_;
};

}  // namespace

std::string describe_change(const Finding& finding, std::uint64_t ranks) {
    const ChangePoint& change = *finding.change;
    const std::string_view step = ranks == 1 ? "a step" : "everyone's step";
    const std::string first = format_integer(finding.first_step);
    const std::string last = format_integer(finding.last_step);
    const std::string before = format_duration_ms(*finding.usual_ms);
    const std::string after = format_duration_ms(*finding.slow_ms);
    const std::string percent = fmt::format("({:+.1f} %)", 100 * (finding.slowdown - 1));
    if (const std::string how = how_gradual(change); !how.empty())
        return fmt::format("from step {} to {} {} {} {} from {} to {} {}", first, last, step,
                           finding.is_costly ? "grows" : "shrinks", how, before, after, percent);
    const bool is_burst = change.shape == ChangeShape::burst;
    const std::string when = is_burst ? fmt::format("in steps {} to {}", first, last) : "from step " + first + " on";
    const std::string takes = fmt::format("takes {} instead of {} {}", after, before, percent);
    const std::string then = is_burst ? ", and then about as before" : "";
    if (change.is_typical) return fmt::format("{} {} {}{}", when, step, takes, then);
    return fmt::format("{} {} of the steps are long, {} before: a step {} on average{}", when,
                       format_percent(change.after.long_share), format_percent(change.before.long_share), takes, then);
}

std::string headline_of_change(const Finding& finding) {
    const ChangePoint& change = *finding.change;
    const std::string first = format_integer(finding.first_step);
    const std::string last = format_integer(finding.last_step);
    const std::string longer = fmt::format("{:.0f} % longer", 100 * (finding.slowdown - 1));
    if (const std::string how = how_gradual(change); !how.empty())
        return fmt::format("steps grow {} from step {} to {}, and are {} then", how, first, last, longer);
    const std::string range = change.shape == ChangeShape::burst ? first + " until " + last : first + " on";
    if (change.is_typical) return fmt::format("every step from {} takes {}", range, longer);
    return fmt::format("from step {} {} of the steps are long, and the mean step takes {}", range,
                       format_percent(change.after.long_share), longer);
}

EventFacts find_history(const JobTable& table, const std::vector<double>& straggler_ms, const NumberRanges& marks,
                        std::vector<Finding>& findings) {
    return History(table, straggler_ms, marks).find(findings);
}

}  // namespace cep::tool
