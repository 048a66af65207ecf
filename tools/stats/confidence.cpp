// SPDX-License-Identifier: Apache-2.0
#include "stats/confidence.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cep::tool {
namespace {

double nth(std::vector<double>& values, std::size_t index) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

}  // namespace

// Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6(2), 1979.
std::vector<double> correct_by_holm(const std::vector<double>& p_values) {
    std::vector<std::size_t> order(p_values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&p_values](std::size_t i, std::size_t j) { return p_values[i] < p_values[j]; });
    std::vector<double> corrected(p_values.size());
    double largest = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        largest = std::max(largest, static_cast<double>(order.size() - i) * p_values[order[i]]);
        corrected[order[i]] = std::min(1.0, largest);
    }
    return corrected;
}

// Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd edition, section 3.6.
bool median_interval(const std::vector<double>& values, double correlation_time, ConfidenceInterval& interval) {
    const auto size = static_cast<double>(values.size());
    const double independent = std::floor(size / correlation_time);
    // Fewer cannot give 95 %: 2 · 2⁻⁵ is above 5 %.
    if (independent < 6) return false;
    // The first order statistic that is above the median with a chance of at most alpha / 2.
    double chance = std::exp2(-independent);
    double cumulative = chance;
    double below = 0;
    if (independent > 1000) {
        below = std::floor(independent / 2 - normal_quantile * std::sqrt(independent) / 2);
    } else {
        while (cumulative <= interval_alpha / 2) {
            chance *= (independent - below) / (below + 1);
            cumulative += chance;
            ++below;
        }
    }
    const double position = std::max(0.0, below - 1) / (independent - 1);
    const auto index = static_cast<std::size_t>(position * (size - 1) + 1e-9);
    std::vector<double> sorted = values;
    interval = {nth(sorted, index), nth(sorted, values.size() - 1 - index)};
    return true;
}

double count_larger_pairs(std::vector<double> a, std::span<const double> b) {
    std::sort(a.begin(), a.end());
    double pairs = 0;
    for (const double value : b) {
        const auto [first, last] = std::equal_range(a.begin(), a.end(), value);
        pairs += static_cast<double>(first - a.begin()) + static_cast<double>(last - first) / 2;
    }
    return pairs;
}

}  // namespace cep::tool
