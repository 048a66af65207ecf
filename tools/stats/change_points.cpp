// SPDX-License-Identifier: Apache-2.0
#include "stats/change_points.hpp"

#include <algorithm>
#include <cmath>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double outlier_deviations = 3;  // beyond them, values are cut off
constexpr double most_correlation = 0.9;  // of neighbours: more is a change
constexpr double least_shift = 0.5;       // of the quartiles, over that of the medians

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
        drop_changes(rules_.least_change, [this](std::size_t i) { return relative_change(i); });
        drop_changes(least_shift, [this](std::size_t i) { return shift_of_quartiles(i); });
        drop_changes(1, [this](std::size_t i) { return how_rare(i); });
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
        const double limit = outlier_deviations * std::max(1e-6, robust_deviation(residuals));
        for (std::size_t i = 0; i < logs_.size(); ++i)
            logs_[i] = std::clamp(logs_[i], local[i] - limit, local[i] + limit);
    }

    void find_noise() {
        std::vector<double> differences;
        for (std::size_t i = 0; i + 1 < logs_.size(); ++i) differences.push_back(logs_[i + 1] - logs_[i]);
        // Neighbours that resemble each other differ less than the series varies. Differences two steps apart show by
        // how much: of an autoregressive process of order one, D2² = D1² (1 + ρ).
        std::vector<double> wide;
        for (std::size_t i = 0; i + 2 < logs_.size(); ++i) wide.push_back(logs_[i + 2] - logs_[i]);
        const double near = std::max(1e-9, robust_deviation(differences));
        const double ratio = robust_deviation(wide) / near;
        const double correlation = std::clamp(is_missing(ratio) ? 0 : ratio * ratio - 1, 0.0, most_correlation);
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

    /// Drops the change with the least measure, until none has less than `least`.
    template <typename Measure>
    void drop_changes(double least, Measure measure) {
        find_medians();
        while (!cuts_.empty()) {
            std::vector<double> measures;
            for (std::size_t i = 0; i < cuts_.size(); ++i) measures.push_back(measure(i));
            const auto smallest = std::min_element(measures.begin(), measures.end());
            if (!(*smallest < least)) return;
            cuts_.erase(cuts_.begin() + (smallest - measures.begin()));
            find_medians();
        }
    }

    void find_medians() {
        medians_.clear();
        for (std::size_t i = 0; i <= cuts_.size(); ++i) medians_.push_back(median_of(segment(i)));
    }

    [[nodiscard]] double relative_change(std::size_t i) const { return std::abs(medians_[i + 1] / medians_[i] - 1); }

    // Steps that are long now and then may be most of a short segment. Where everyone changes, the short steps do too:
    // both quartiles, by how much of the change of the medians.
    [[nodiscard]] double shift_of_quartiles(std::size_t i) const {
        const std::vector<double> before = quantiles_of(segment(i), {0.25, 0.75});
        const std::vector<double> after = quantiles_of(segment(i + 1), {0.25, 0.75});
        const double change = medians_[i + 1] - medians_[i];
        return std::min((after[0] - before[0]) / change, (after[1] - before[1]) / change);
    }

    // Noise that lasts for many steps looks like changes everywhere. A change stands out from how medians of so many
    // neighbours differ elsewhere in the series: by more than chance gives any place of it, for one number of them.
    [[nodiscard]] double how_rare(std::size_t i) const {
        const std::size_t least_side = std::min(segment(i).size(), segment(i + 1).size());
        double most = 0;
        for (std::size_t width = 1; width <= least_side; width *= 2) {
            const std::vector<double> usual = usual_jumps(width);
            if (usual.size() < 2) break;
            double squares = 0;
            for (const double jump : usual) squares += jump * jump;
            const auto freedom = static_cast<double>(usual.size());
            const double places = std::max(1.0, static_cast<double>(values_.size()) / static_cast<double>(width));
            const double least = student_quantile(rules_.false_alarms / places / 2, freedom);
            const double deviation = std::max(1e-9, std::sqrt(squares / freedom));
            most = std::max(most, std::abs(jump_at(cuts_[i], width)) / deviation / least);
        }
        return most;
    }

    /// From the median of so many values before a place to that of those from it on.
    [[nodiscard]] double jump_at(std::size_t at, std::size_t width) const {
        return std::log(median_of(values_.subspan(at, width)) / median_of(values_.subspan(at - width, width)));
    }

    /// At places of segments, far enough from changes and from each other.
    [[nodiscard]] std::vector<double> usual_jumps(std::size_t width) const {
        std::vector<double> jumps;
        for (std::size_t i = 0; i <= cuts_.size(); ++i) {
            const std::size_t first = i == 0 ? 0 : cuts_[i - 1];
            const std::size_t last = first + segment(i).size();
            for (std::size_t at = first + width; at + width <= last; at += 2 * width)
                jumps.push_back(jump_at(at, width));
        }
        return jumps;
    }

    /// Segment 0 ends with the first cut.
    [[nodiscard]] std::span<const double> segment(std::size_t i) const {
        const std::size_t first = i == 0 ? 0 : cuts_[i - 1];
        const std::size_t last = i < cuts_.size() ? cuts_[i] : values_.size();
        return values_.subspan(first, last - first);
    }

    const std::span<const double> values_;
    const ChangeRules& rules_;
    std::vector<double> logs_;
    double noise_ = 0;
    std::vector<std::size_t> cuts_;
    std::vector<double> medians_;  // of the segments between the cuts
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangeRules& rules) {
    return Segmentation(values, rules).find();
}

}  // namespace cep::tool
