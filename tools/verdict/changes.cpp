// SPDX-License-Identifier: Apache-2.0
#include "verdict/changes.hpp"

#include <algorithm>
#include <cmath>

#include "stats/robust.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

class Segmentation {
  public:
    Segmentation(std::span<const double> values, const ChangeRules& rules) : values_(values), rules_(rules) {
        for (const double value : values) logs_.push_back(std::log(value));
        cut_off_outliers();
        find_noise();
    }

    std::vector<ChangePoint> find() {
        if (logs_.size() >= 2 * rules_.least_steps) split(0, logs_.size());
        std::sort(cuts_.begin(), cuts_.end());
        drop_small_changes();
        std::vector<ChangePoint> points;
        for (std::size_t i = 0; i < cuts_.size(); ++i) points.push_back({cuts_[i], medians_[i], medians_[i + 1]});
        return points;
    }

  private:
    // Against the median of its neighbours, so that a change is no outlier.
    void cut_off_outliers() {
        constexpr std::size_t reach = 4;
        const std::vector<double> local = moving_medians(logs_, reach);
        std::vector<double> residuals;
        for (std::size_t i = 0; i < logs_.size(); ++i) residuals.push_back(logs_[i] - local[i]);
        const double limit = 3 * std::max(1e-6, robust_deviation(residuals));
        for (std::size_t i = 0; i < logs_.size(); ++i)
            logs_[i] = std::clamp(logs_[i], local[i] - limit, local[i] + limit);
    }

    void find_noise() {
        std::vector<double> differences;
        for (std::size_t i = 0; i + 1 < logs_.size(); ++i) differences.push_back(logs_[i + 1] - logs_[i]);
        // Neighbours that resemble each other differ less than the series varies. Differences two steps apart tell by
        // how much_longer: of an autoregressive process, D2 = D1 (1 + ρ).
        std::vector<double> wide;
        for (std::size_t i = 0; i + 2 < logs_.size(); ++i) wide.push_back(logs_[i + 2] - logs_[i]);
        const double near = std::max(1e-9, robust_deviation(differences));
        const double ratio = robust_deviation(wide) / near;
        const double correlation = std::clamp(is_missing(ratio) ? 0 : ratio * ratio - 1, 0.0, 0.9);
        noise_ = near / std::sqrt(2 * (1 - correlation)) * std::sqrt((1 + correlation) / (1 - correlation));
    }

    /// The best place to cut [first, last) in two, and the squared standardised difference of the two means.
    void split(std::size_t first, std::size_t last) {
        if (last - first < 2 * rules_.least_steps) return;
        double all = 0;
        for (std::size_t i = first; i < last; ++i) all += logs_[i];
        const auto size = static_cast<double>(last - first);
        double left = 0;
        double best = 0;
        std::size_t cut = 0;
        for (std::size_t i = first; i + rules_.least_steps < last; ++i) {
            left += logs_[i];
            const auto count = static_cast<double>(i + 1 - first);
            if (i + 1 - first < rules_.least_steps) continue;
            const double difference = left / count - (all - left) / (size - count);
            const double z = std::abs(difference) * std::sqrt(count * (size - count) / size) / noise_;
            if (z > best) {
                best = z;
                cut = i + 1;
            }
        }
        // Any of so many places could have been the best one.
        const double least = rules_.noise_multiple + std::sqrt(2 * std::log(static_cast<double>(logs_.size()))) - 2;
        if (best < least) return;
        cuts_.push_back(cut);
        split(first, cut);
        split(cut, last);
    }

    void drop_small_changes() {
        for (std::size_t i = 0; i <= cuts_.size(); ++i) medians_.push_back(median_of_segment(i));
        for (;;) {
            std::size_t smallest = cuts_.size();
            double least = rules_.least_change;
            for (std::size_t i = 0; i < cuts_.size(); ++i)
                if (const double change = std::abs(medians_[i + 1] / medians_[i] - 1); change < least) {
                    least = change;
                    smallest = i;
                }
            if (smallest == cuts_.size()) return;
            cuts_.erase(cuts_.begin() + static_cast<std::ptrdiff_t>(smallest));
            medians_.erase(medians_.begin() + static_cast<std::ptrdiff_t>(smallest));
            medians_[smallest] = median_of_segment(smallest);
        }
    }

    /// Segment 0 ends with the first cut.
    [[nodiscard]] double median_of_segment(std::size_t i) const {
        const std::size_t first = i == 0 ? 0 : cuts_[i - 1];
        const std::size_t last = i < cuts_.size() ? cuts_[i] : values_.size();
        return median_of(values_.subspan(first, last - first));
    }

    const std::span<const double> values_;
    const ChangeRules& rules_;
    std::vector<double> logs_;
    double noise_ = 0;
    std::vector<std::size_t> cuts_;
    std::vector<double> medians_;  // of the segments between the cuts
};

std::vector<double> values_at(const std::vector<double>& values, std::span<const std::size_t> places) {
    std::vector<double> chosen;
    chosen.reserve(places.size());
    for (const std::size_t place : places) chosen.push_back(values[place]);
    return chosen;
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
            const std::size_t step = present_[i];
            if (step_ms_[step] < much_longer * usual_ms) continue;
            const bool marked = marks_.contains(table_.steps[step]);
            StepEvents& events = history_.events;
            (marked ? events.marked : events.unmarked).push_back(step);
            (marked ? events.marked_excess_ms : events.unmarked_excess_ms) += step_ms_[step] - usual_ms;
        }
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
            history_.changes.push_back({sides.after.front(), points[i].before, points[i].after, {}, 0});
        }
        if (!all_sides.empty()) find_phases(all_sides);
    }

    void find_phases(const std::vector<Sides>& all_sides) {
        const auto consider = [&](const std::string& name, const StepMatrix& ms) {
            const std::vector<double> medians = quantiles_over_ranks(ms, 0.5);
            for (std::size_t i = 0; i < all_sides.size(); ++i) {
                StepChange& change = history_.changes[i];
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
    JobHistory history_;
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangeRules& rules) {
    return Segmentation(values, rules).find();
}

JobHistory find_history(const JobTable& table, const std::vector<double>& straggler_ms, const NumberRanges& marks) {
    return History(table, straggler_ms, marks).find();
}

}  // namespace cep::tool
