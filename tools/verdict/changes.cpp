// SPDX-License-Identifier: Apache-2.0
#include "changes.hpp"

#include <algorithm>
#include <cmath>

#include "robust.hpp"

namespace cep::analysis {
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
        for (std::size_t i = 0; i < cuts_.size(); ++i)
            points.push_back({cuts_[i], median_between(i == 0 ? 0 : cuts_[i - 1], cuts_[i]),
                              median_between(cuts_[i], i + 1 < cuts_.size() ? cuts_[i + 1] : values_.size())});
        return points;
    }

  private:
    // Against the median of its neighbours, so that a change is no outlier.
    void cut_off_outliers() {
        constexpr std::size_t reach = 4;
        std::vector<double> residuals;
        std::vector<double> local;
        for (std::size_t i = 0; i < logs_.size(); ++i) {
            const std::size_t first = i < reach ? 0 : i - reach;
            const std::size_t last = std::min(logs_.size(), i + reach + 1);
            local.push_back(median_of({logs_.begin() + static_cast<std::ptrdiff_t>(first),
                                       logs_.begin() + static_cast<std::ptrdiff_t>(last)}));
            residuals.push_back(logs_[i] - local[i]);
        }
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
        for (;;) {
            std::size_t smallest = cuts_.size();
            double least = rules_.least_change;
            for (std::size_t i = 0; i < cuts_.size(); ++i) {
                const double before = median_between(i == 0 ? 0 : cuts_[i - 1], cuts_[i]);
                const double after = median_between(cuts_[i], i + 1 < cuts_.size() ? cuts_[i + 1] : values_.size());
                if (const double change = std::abs(after / before - 1); change < least) {
                    least = change;
                    smallest = i;
                }
            }
            if (smallest == cuts_.size()) return;
            cuts_.erase(cuts_.begin() + static_cast<std::ptrdiff_t>(smallest));
        }
    }

    [[nodiscard]] double median_between(std::size_t first, std::size_t last) const {
        return median_of({values_.begin() + static_cast<std::ptrdiff_t>(first),
                          values_.begin() + static_cast<std::ptrdiff_t>(last)});
    }

    const std::span<const double> values_;
    const ChangeRules& rules_;
    std::vector<double> logs_;
    double noise_ = 0;
    std::vector<std::size_t> cuts_;
};

/// Of one phase: medians over ranks, by step.
std::vector<double> medians_of(const StepMatrix& ms, std::size_t steps) {
    std::vector<double> medians;
    for (std::size_t step = 0; step < steps; ++step) medians.push_back(median_of(ms.of_step(step)));
    return medians;
}

double median_over(const std::vector<double>& values, const std::vector<std::size_t>& places) {
    std::vector<double> chosen;
    for (const std::size_t place : places) chosen.push_back(values[place]);
    return median_of(std::move(chosen));
}

class History {
  public:
    History(const JobTable& table, const std::vector<double>& step_ms, const std::vector<double>& straggler_ms,
            const std::set<std::int64_t>& marks)
        : table_(table), whole_ms_(step_ms), step_ms_(step_ms), marks_(marks) {
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
        for (std::size_t i = 0; i < present_.size(); ++i) {
            std::vector<std::size_t> near;
            for (std::size_t j = i < reach ? 0 : i - reach; j < std::min(present_.size(), i + reach + 1); ++j)
                near.push_back(present_[j]);
            const double usual_ms = median_over(step_ms_, near);
            const std::size_t step = present_[i];
            if (step_ms_[step] < much_longer * usual_ms) continue;
            const bool marked = marks_.contains(table_.steps[step]);
            StepEvents& events = history_.events;
            (marked ? events.marked : events.unmarked).push_back(step);
            (marked ? events.marked_excess_ms : events.unmarked_excess_ms) += step_ms_[step] - usual_ms;
        }
    }

    void find_changes() {
        std::vector<std::size_t> places;
        std::vector<double> values;
        for (const std::size_t step : present_) {
            if (marks_.contains(table_.steps[step])) continue;
            places.push_back(step);
            values.push_back(step_ms_[step]);
        }
        const std::vector<ChangePoint> points = find_change_points(values);
        for (std::size_t i = 0; i < points.size(); ++i) {
            const auto first = places.begin() + static_cast<std::ptrdiff_t>(i == 0 ? 0 : points[i - 1].at);
            const auto cut = places.begin() + static_cast<std::ptrdiff_t>(points[i].at);
            const auto last =
                i + 1 < points.size() ? places.begin() + static_cast<std::ptrdiff_t>(points[i + 1].at) : places.end();
            add_change(points[i], {first, cut}, {cut, last});
        }
    }

    void add_change(const ChangePoint& point, const std::vector<std::size_t>& before,
                    const std::vector<std::size_t>& after) {
        StepChange change{after.front(), point.before, point.after, {}, 0};
        const double sign = point.after > point.before ? 1 : -1;
        // What a straggler costs is an estimate: a step that did not change so as a whole changed by its error.
        if (sign * (median_over(whole_ms_, after) - median_over(whole_ms_, before)) <= 0) return;
        const auto consider = [&](const std::string& name, const StepMatrix& ms) {
            const std::vector<double> medians = medians_of(ms, table_.steps.size());
            const double difference = median_over(medians, after) - median_over(medians, before);
            if (is_missing(difference) || sign * difference <= sign * change.phase_change_ms) return;
            change.phase = name;
            change.phase_change_ms = difference;
        };
        for (const LocalPhase& phase : table_.local) consider(phase.name, phase.own_ms);
        if (table_.has_comm) consider("communication", table_.exposed_ms);
        history_.changes.push_back(std::move(change));
    }

    const JobTable& table_;
    const std::vector<double>& whole_ms_;
    std::vector<double> step_ms_;  // without what stragglers cost
    const std::set<std::int64_t>& marks_;
    std::vector<std::size_t> present_;
    JobHistory history_;
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangeRules& rules) {
    return Segmentation(values, rules).find();
}

JobHistory find_history(const JobTable& table, const std::vector<double>& step_ms,
                        const std::vector<double>& straggler_ms, const std::set<std::int64_t>& marks) {
    return History(table, step_ms, straggler_ms, marks).find();
}

}  // namespace cep::analysis
