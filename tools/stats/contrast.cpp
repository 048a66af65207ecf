// SPDX-License-Identifier: Apache-2.0
//
// The burst that a window of any length may be is searched for in windows of each power of two, whose ends are then
// moved as long as that explains more; a ramp between knots on a grid.
#include "stats/contrast.hpp"

#include <algorithm>
#include <cmath>

#include "stats/block_bootstrap.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

class ContrastSearch {
  public:
    ContrastSearch(std::span<const double> values, std::size_t least)
        : size_(values.size()), least_(least), sums_(size_ + 1) {
        double mean = 0;
        for (const double value : values) mean += value / static_cast<double>(size_);
        for (std::size_t i = 0; i < size_; ++i) sums_[i + 1] = sums_[i] + values[i] - mean;
        weighted_.resize(size_ + 1);
        for (std::size_t i = 0; i < size_; ++i)
            weighted_[i + 1] = weighted_[i] + static_cast<double>(i) * (values[i] - mean);
    }

    std::vector<FittedContrast> find() {
        if (size_ < 2 * least_) return {};
        std::vector<FittedContrast> found = {best_cut()};
        if (size_ >= 3 * least_) found.push_back(best_burst());
        if (size_ >= 4 * least_) found.push_back(best_ramp());
        return found;
    }

  private:
    /// Fits a level in [first, last) that differs from that of all other positions.
    [[nodiscard]] FittedContrast fit_window(ContrastKind kind, std::size_t first, std::size_t last) const {
        const auto count = static_cast<double>(last - first);
        const auto size = static_cast<double>(size_);
        FittedContrast fitted{{kind, first, last}};
        fitted.mean_share = count / size;
        fitted.freedom = count * (size - count) / size;
        const double product = sums_[last] - sums_[first];
        fitted.change = product / fitted.freedom;
        fitted.explained = product * product / fitted.freedom;
        return fitted;
    }

    [[nodiscard]] FittedContrast best_cut() const {
        FittedContrast best;
        for (std::size_t first = least_; first + least_ <= size_; ++first) {
            const FittedContrast fitted = fit_window(ContrastKind::cut, first, size_);
            if (fitted.explained >= best.explained) best = fitted;
        }
        return best;
    }

    [[nodiscard]] bool is_burst(std::size_t first, std::size_t last) const {
        return first >= least_ && last + least_ <= size_ && last >= first + least_;
    }

    [[nodiscard]] FittedContrast best_burst() const {
        FittedContrast best;
        for (std::size_t width = least_; width + 2 * least_ <= size_; width *= 2)
            for (std::size_t first = least_; is_burst(first, first + width); ++first) {
                const FittedContrast fitted = fit_window(ContrastKind::burst, first, first + width);
                if (fitted.explained >= best.explained) best = fitted;
            }
        for (std::size_t step = best.contrast.last - best.contrast.first; step > 0;) {
            const FittedContrast moved = best_move(best, step);
            if (moved.explained > best.explained)
                best = moved;
            else
                step /= 2;
        }
        return best;
    }

    [[nodiscard]] FittedContrast best_move(const FittedContrast& from, std::size_t step) const {
        FittedContrast best = from;
        const std::size_t first = from.contrast.first;
        const std::size_t last = from.contrast.last;
        const auto consider = [&](std::size_t a, std::size_t b) {
            if (!is_burst(a, b)) return;
            const FittedContrast fitted = fit_window(ContrastKind::burst, a, b);
            if (fitted.explained > best.explained) best = fitted;
        };
        if (first >= step) consider(first - step, last);
        consider(first + step, last);
        if (last >= step) consider(first, last - step);
        consider(first, last + step);
        return best;
    }

    /// Fits a ramp that begins behind first − 1 and is done at `last`.
    [[nodiscard]] FittedContrast fit_ramp(std::size_t first, std::size_t last) const {
        const auto length = static_cast<double>(last - first + 1);
        const auto on_ramp = static_cast<double>(last - first);
        const auto after = static_cast<double>(size_ - last);
        const auto size = static_cast<double>(size_);
        const double shares = on_ramp * (on_ramp + 1) / 2 / length + after;
        const double squares = on_ramp * (on_ramp + 1) * (2 * on_ramp + 1) / 6 / (length * length) + after;
        const double product =
            (weighted_[last] - weighted_[first] + (1 - static_cast<double>(first)) * (sums_[last] - sums_[first])) /
                length +
            sums_[size_] - sums_[last];
        FittedContrast fitted{{ContrastKind::ramp, first, last}};
        fitted.mean_share = shares / size;
        fitted.freedom = squares - shares * shares / size;
        fitted.change = product / fitted.freedom;
        fitted.explained = product * product / fitted.freedom;
        return fitted;
    }

    [[nodiscard]] FittedContrast best_ramp() const {
        constexpr std::size_t knots = 24;
        const std::size_t grid = std::max(least_, size_ / knots);
        FittedContrast best;
        for (std::size_t first = 0; first + 2 * grid <= size_; first += grid)
            for (std::size_t last = first + 2 * grid; last <= size_; last += grid) {
                const FittedContrast fitted = fit_ramp(first, std::min(last, size_ - 1));
                if (fitted.explained >= best.explained) best = fitted;
            }
        return best;
    }

    std::size_t size_;
    std::size_t least_;
    std::vector<double> sums_;      // of the first values less their mean
    std::vector<double> weighted_;  // of these times their positions
};

}  // namespace

std::vector<FittedContrast> find_contrasts(std::span<const double> values, std::size_t least) {
    return ContrastSearch(values, least).find();
}

namespace {

/// The correlation of values around 0 with the value before.
double neighbour_correlation(std::span<const double> values) {
    double products = 0;
    double squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        squares += values[i] * values[i];
        if (i > 0) products += values[i] * values[i - 1];
    }
    return squares > 0 ? products / squares : 0;
}

/// By how much a long-run variance is too small once the best contrast has taken its part of the slow variation. The
/// correlation of neighbours is then too small by twice Kendall's bias ("Note on bias in the estimation of
/// autocorrelation", Biometrika 41, 1954), of short series by a term of the next order more, as measured
/// (tests/bench/change_rates.py), and is known to a standard error only.
double missing_variance(std::span<const double> rest) {
    constexpr double biases = 2;
    constexpr double errors = 1;
    constexpr double short_series = 60;  // values
    constexpr double most = 0.98;
    const auto size = static_cast<double>(rest.size());
    const double found = std::clamp(neighbour_correlation(rest), 0.0, most);
    const double bias = biases * (1 + short_series / size) * (1 + 3 * found) / size;
    const double error = errors * std::sqrt((1 - found * found) / size);
    const double likely = std::min(found + bias + error, most);
    return (1 + likely) / (1 - likely) * (1 - found) / (1 + found);
}

constexpr double kinds = 4;        // of contrasts that are tried, on two scales
constexpr std::size_t beside = 3;  // values on either side of an edge; their median ignores one that is long

/// By how much the median of the values from `edge` on is more than that of those just before it.
double jump_at(std::span<const double> values, std::size_t edge) {
    const auto median = [&](std::size_t first) {
        const auto [least, most] = std::minmax(values[first], values[first + 1]);
        return std::clamp(values[first + 2], least, most);
    };
    return median(edge) - median(edge - beside);
}

/// A jump at an edge, over what chance makes of the largest one by the jumps elsewhere in `rest`. What varies slowly
/// moves levels far, but jumps nowhere: no long-run variance is needed, which short series hardly show.
double significance_of_jump(double jump, std::span<const double> rest, std::size_t edge, double false_alarms) {
    double squares = 0;
    double count = 0;
    for (std::size_t i = beside; i + beside <= rest.size(); ++i) {
        if (i + beside > edge && i < edge + beside) continue;
        const double other = jump_at(rest, i);
        squares += other * other;
        ++count;
    }
    const double freedom = count / beside - 1;  // neighbours share values
    if (freedom < 1) return 0;
    const double positions = kinds * static_cast<double>(rest.size());
    return jump / std::max(1e-9, std::sqrt(squares / count)) / student_quantile(false_alarms / positions / 2, freedom);
}

/// The same of a contrast, at that of its edges which jumps least; 0 of a ramp, which has none. A jump counts for no
/// more than the level changes by, so that a few long values at an edge are none.
double suddenness(std::span<const double> values, std::span<const double> rest, const FittedContrast& fitted,
                  double false_alarms) {
    const Contrast& contrast = fitted.contrast;
    if (contrast.kind == ContrastKind::ramp) return 0;
    const double sign = fitted.change > 0 ? 1 : -1;
    const auto at = [&](std::size_t edge, double direction) {
        const double jump = std::min(direction * jump_at(values, edge), sign * fitted.change);
        return significance_of_jump(jump, rest, edge, false_alarms);
    };
    const double first = at(contrast.first, sign);
    return contrast.kind == ContrastKind::cut ? first : std::min(first, at(contrast.last, -sign));
}

}  // namespace

double significance(std::span<const double> values, const FittedContrast& fitted, double false_alarms) {
    std::vector<double> rest(values.begin(), values.end());
    const double before = mean_of(values) - fitted.change * fitted.mean_share;
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= before + fitted.change * fitted.contrast.share(i);
    const MeanVariance of_mean = variance_of_mean(rest);
    const double missing = missing_variance(rest);
    const auto size = static_cast<double>(values.size());
    const double independent = size / of_mean.correlation_time / missing;
    const double freedom = std::max(1.0, std::min(of_mean.freedom, independent - 2));
    double positions = kinds * std::max(1.0, independent);
    if (fitted.contrast.kind == ContrastKind::burst) positions *= std::log2(size);  // lengths
    const double error = std::sqrt(of_mean.variance * missing * size / fitted.freedom);
    const double limit = student_quantile(false_alarms / positions / 2, freedom);
    const double lasting = std::abs(fitted.change) / std::max(1e-9, error) / limit;
    return lasting >= 1 ? lasting : std::max(lasting, suddenness(values, rest, fitted, false_alarms));
}

}  // namespace cep::tool
