// SPDX-License-Identifier: Apache-2.0
#include "stats/robust.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace cep::tool {

namespace {

/// std::lgamma() writes the sign to a global variable, which threads share.
double log_gamma(double x) {
    int sign = 0;
    return lgamma_r(x, &sign);
}

}  // namespace

double mean_of(std::span<const double> values) {
    double sum = 0;
    double count = 0;
    for (const double value : values) {
        if (is_missing(value)) continue;
        sum += value;
        ++count;
    }
    return sum / count;
}

double robust_deviation(std::span<const double> values) {
    return robust_deviation(values, median_of(values));
}

double robust_deviation(std::span<const double> values, double median) {
    std::vector<double> distances(values.begin(), values.end());
    for (double& value : distances) value = std::abs(value - median);
    return normal_consistency * median_of(distances);
}

double spread_of(std::vector<double> values) {
    constexpr double of_lower_three_quarters =
        0.7312;  // the standard deviation of normal values below their 0.75 quantile
    const double by_median = robust_deviation(values) * (1 + 2 / static_cast<double>(values.size()));
    std::sort(values.begin(), values.end());
    values.resize(values.size() - values.size() / 4);
    const double count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    return count < 2 ? by_median : std::max(by_median, std::sqrt(squares / (count - 1)) / of_lower_three_quarters);
}

std::size_t count_below_gap(std::vector<double> levels, double least_gap, double least_gap_of_most) {
    constexpr double least_gap_in_ranges = 3;  // of the range of a population
    std::size_t below = levels.size();
    std::erase_if(levels, is_missing);
    std::sort(levels.begin(), levels.end());
    double widest = 0;
    for (std::size_t i = 1; i < levels.size(); ++i) {
        const double gap = levels[i] - levels[i - 1];
        const bool are_most = levels.size() > 2 && 2 * (levels.size() - i) > levels.size();
        double range = levels[i - 1] - levels.front();
        if (are_most) range = std::max(range, levels.back() - levels[i]);
        const bool counts = gap >= (are_most ? least_gap_of_most : least_gap) && gap >= least_gap_in_ranges * range;
        if (!counts || gap <= widest) continue;
        widest = gap;
        below = i;
    }
    return below;
}

double burst_size(std::span<const double> values, double threshold, std::size_t pause) {
    double squares = 0;
    double count = 0;
    double burst = 0;
    std::size_t last = 0;
    for (std::size_t step = 0; step < values.size(); ++step) {
        if (!(values[step] > threshold)) continue;
        if (step - last >= pause) squares += std::pow(std::exchange(burst, 0.0), 2);
        ++burst;
        ++count;
        last = step;
    }
    return (squares + burst * burst) / count;
}

double lag_correlation(std::span<const double> values, double median, double limit) {
    constexpr std::size_t least_pairs = 8;
    double products = 0;
    double squares = 0;
    std::size_t pairs = 0;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
        if (is_missing(values[i]) || is_missing(values[i + 1])) continue;
        const double a = std::clamp(values[i] - median, -limit, limit);
        const double b = std::clamp(values[i + 1] - median, -limit, limit);
        products += a * b;
        squares += (a * a + b * b) / 2;
        ++pairs;
    }
    if (pairs < least_pairs || squares <= 0) return std::numeric_limits<double>::quiet_NaN();
    return products / squares;
}

std::vector<double> moving_medians(std::span<const double> values, std::size_t reach) {
    std::vector<double> medians;
    medians.reserve(values.size());
    std::vector<double> window;  // ascending
    std::size_t last = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        for (; last < std::min(values.size(), i + reach + 1); ++last)
            window.insert(std::upper_bound(window.begin(), window.end(), values[last]), values[last]);
        if (i > reach) window.erase(std::lower_bound(window.begin(), window.end(), values[i - reach - 1]));
        const std::size_t below = (window.size() - 1) / 2;
        medians.push_back(window.size() % 2 != 0 ? window[below]
                                                 : window[below] + (window[below + 1] - window[below]) * 0.5);
    }
    return medians;
}

double normal_tail(double x) {
    return std::erfc(x / std::sqrt(2.0)) / 2;
}

// Through the incomplete beta function, whose continued fraction is that of Abramowitz and Stegun 26.5.8, by Lentz's
// method.
double student_tail(double t, double freedom) {
    if (t <= 0) return t == 0 ? 0.5 : 1 - student_tail(-t, freedom);
    if (freedom > 1e6) return normal_tail(t);
    const double x = freedom / (freedom + t * t);
    const double a = freedom / 2;
    const double b = 0.5;
    const bool is_mirrored = x > (a + 1) / (a + b + 2);
    const auto fraction = [](double p, double q, double at) {
        constexpr double tiny = 1e-300;
        double c = 1;
        double d = 1 / std::max(1 - (p + q) * at / (p + 1), tiny);
        double value = d;
        const auto continue_with = [&](double term) {
            d = 1 / (std::abs(1 + term * d) < tiny ? tiny : 1 + term * d);
            c = std::abs(1 + term / c) < tiny ? tiny : 1 + term / c;
            value *= d * c;
        };
        for (int i = 1; i < 500; ++i) {
            const double m = i;
            continue_with(m * (q - m) * at / ((p + 2 * m - 1) * (p + 2 * m)));
            continue_with(-(p + m) * (p + q + m) * at / ((p + 2 * m) * (p + 2 * m + 1)));
            if (std::abs(d * c - 1) < 1e-14) break;
        }
        return value;
    };
    const double front =
        std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log1p(-x));
    const double whole = is_mirrored ? 1 - front * fraction(b, a, 1 - x) / b : front * fraction(a, b, x) / a;
    return whole / 2;
}

double student_quantile(double tail, double freedom) {
    double high = 1;
    while (student_tail(high, freedom) > tail && high < 1e9) high *= 2;
    double low = high / 2;
    for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (student_tail(middle, freedom) > tail ? low : high) = middle;
    }
    return high;
}

double binomial_tail(std::size_t k, std::size_t n, double p) {
    if (k == 0) return 1;
    if (k > n || p <= 0) return 0;
    if (p >= 1) return 1;
    const auto log_term = [&](std::size_t i) {
        const auto x = static_cast<double>(i);
        const auto all = static_cast<double>(n);
        return log_gamma(all + 1) - log_gamma(x + 1) - log_gamma(all - x + 1) + x * std::log(p) +
               (all - x) * std::log1p(-p);
    };
    double sum = 0;
    for (std::size_t i = k; i <= n; ++i) {
        const double term = std::exp(log_term(i));
        sum += term;
        if (static_cast<double>(i) > static_cast<double>(n) * p && term < sum * 1e-12) break;
    }
    return std::min(sum, 1.0);
}

Segment best_segment(std::span<const double> scores) {
    Segment best;
    double best_sum = -std::numeric_limits<double>::infinity();
    double sum = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (sum <= 0) {
            sum = 0;
            first = i;
        }
        sum += scores[i];
        if (sum > best_sum) {
            best_sum = sum;
            best = {first, i};
        }
    }
    return best;
}

}  // namespace cep::tool
