// SPDX-License-Identifier: Apache-2.0
#include "verdict/changes.hpp"

#include <algorithm>
#include <cmath>

#include "ledger/table_quantiles.hpp"
#include "stats/change_points.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

std::vector<double> values_at(const std::vector<double>& values, std::span<const std::size_t> places) {
    std::vector<double> chosen;
    chosen.reserve(places.size());
    for (const std::size_t place : places) chosen.push_back(values[place]);
    return chosen;
}

double longest_over_ranks(const StepMatrix& ms, std::size_t step) {
    double longest_ms = 0;
    for (std::size_t rank = 0; rank < ms.ranks(); ++rank)
        if (!is_missing(ms.at(rank, step))) longest_ms = std::max(longest_ms, ms.at(rank, step));
    return longest_ms;
}

class History {
  public:
    History(const JobTable& table, const std::vector<double>& straggler_ms, const NumberRanges& marks)
        : table_(table), step_ms_(table.median_step_ms), marks_(marks) {
        for (std::size_t step = 0; step < step_ms_.size(); ++step) step_ms_[step] -= straggler_ms[step];
    }

    JobHistory find() {
        for (std::size_t step = 0; step < step_ms_.size(); ++step)
            if (step_ms_[step] > 0) present_.push_back(step);
        find_events();
        if (const double all_ms = sum_ms(step_ms_); all_ms > 0)
            history_.events.unmarked_share = history_.events.unmarked_excess_ms / all_ms;
        find_changes();
        return std::move(history_);
    }

  private:
    void find_events() {
        constexpr std::size_t reach = 8;
        constexpr double much_longer = 1.5;
        const std::vector<double> usuals_ms = moving_medians(values_at(step_ms_, present_), reach);
        for (std::size_t i = 0; i < present_.size(); ++i) {
            const double usual_ms = usuals_ms[i];
            const double ms = step_ms_[present_[i]];
            if (ms < much_longer * usual_ms) continue;
            const std::int64_t step = table_.steps[present_[i]];
            const bool marked = marks_.contains(step);
            EventFacts& events = history_.events;
            (marked ? events.marked_steps : events.unmarked_steps).push_back(step);
            (marked ? events.marked_excess_ms : events.unmarked_excess_ms) += ms - usual_ms;
            if (!marked) unmarked_.push_back(present_[i]);
        }
        name_events();
    }

    /// Names the phase that has most of what the unmarked steps take longer, if one has.
    void name_events() {
        if (unmarked_.empty()) return;
        double most_ms = history_.events.unmarked_excess_ms / 2;
        for (const LocalPhase& phase : table_.local) {
            const double excess_ms = find_event_excess_ms(phase.own_ms);
            if (excess_ms < most_ms) continue;
            most_ms = excess_ms;
            history_.events.unmarked_phase = phase.name;
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
        double sign = 1;  // of the change

        /// By how much the median after exceeds that before.
        [[nodiscard]] double difference(const std::vector<double>& values) const {
            return median_of(values_at(values, after)) - median_of(values_at(values, before));
        }
    };

    void find_changes() {
        std::vector<std::size_t> places;
        for (const std::size_t step : present_)
            if (!marks_.contains(table_.steps[step])) places.push_back(step);
        std::vector<Sides> all_sides;
        const std::vector<ChangePoint> points = find_change_points(values_at(step_ms_, places));
        for (std::size_t i = 0; i < points.size(); ++i) {
            const std::size_t first = i == 0 ? 0 : points[i - 1].at;
            const std::size_t cut = points[i].at;
            const std::size_t last = i + 1 < points.size() ? points[i + 1].at : places.size();
            const std::span steps(places);
            const Sides sides{points[i], steps.subspan(first, cut - first), steps.subspan(cut, last - cut),
                              points[i].after > points[i].before ? 1.0 : -1.0};
            // What a straggler costs is an estimate: a step that did not change so as a whole changed by its error.
            if (sides.sign * sides.difference(table_.median_step_ms) <= 0) continue;
            all_sides.push_back(sides);
            history_.changes.push_back({table_.steps[sides.after.front()], points[i].before, points[i].after, {}, 0});
        }
        if (!all_sides.empty()) find_phases(all_sides);
    }

    void find_phases(const std::vector<Sides>& all_sides) {
        const auto consider = [&](const std::string& name, const StepMatrix& ms) {
            const std::vector<double> medians = quantiles_over_ranks(ms, 0.5);
            for (std::size_t i = 0; i < all_sides.size(); ++i) {
                ChangeFact& change = history_.changes[i];
                const double sign = all_sides[i].sign;
                const double difference = all_sides[i].difference(medians);
                if (is_missing(difference) || sign * difference <= sign * change.phase_change_ms) continue;
                change.phase = name;
                change.phase_change_ms = difference;
            }
        };
        for (const LocalPhase& phase : table_.local) consider(phase.name, phase.own_ms);
        if (table_.has_comm) consider("communication", table_.exposed_ms);
    }

    const JobTable& table_;
    std::vector<double> step_ms_;  // without what stragglers cost
    const NumberRanges& marks_;
    std::vector<std::size_t> present_;
    std::vector<std::size_t> unmarked_;  // steps of unmarked events
    JobHistory history_;
};

}  // namespace

JobHistory find_history(const JobTable& table, const std::vector<double>& straggler_ms, const NumberRanges& marks) {
    return History(table, straggler_ms, marks).find();
}

}  // namespace cep::tool
