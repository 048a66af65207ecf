// SPDX-License-Identifier: Apache-2.0
//
// Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd edition: sections 3.6 (the median's
// interval), 4.1 to 4.3 (the test, the shift and its interval).
#include "stats/rank_test.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cep::compare {
namespace {

constexpr double alpha = 0.05;
constexpr double normal_quantile = 1.959963984540054;  // of 1 − alpha / 2
constexpr std::size_t max_exact = 50;                  // values of a sample; the approximation is good to 1 % by then

bool has_ties(std::vector<double> a, const std::vector<double>& b) {
    a.insert(a.end(), b.begin(), b.end());
    std::sort(a.begin(), a.end());
    return std::adjacent_find(a.begin(), a.end()) != a.end();
}

/// The distribution of U where both samples come from one: P(U = u) for u from 0 to n m. The largest value of all is
/// of A with probability n / (n + m), and then lies below none of B's; or of B, and then above all n of A's.
std::vector<double> distribution_of_u(std::size_t n, std::size_t m) {
    std::vector<std::vector<double>> shorter(m + 1, {1.0});  // of n − 1 and each m
    for (std::size_t i = 1; i <= n; ++i) {
        std::vector<std::vector<double>> current = {{1.0}};
        for (std::size_t j = 1; j <= m; ++j) {
            const double of_a = static_cast<double>(i) / static_cast<double>(i + j);
            std::vector<double> chances(i * j + 1, 0.0);
            for (std::size_t u = 0; u < shorter[j].size(); ++u) chances[u] += of_a * shorter[j][u];
            for (std::size_t u = 0; u < current[j - 1].size(); ++u) chances[u + i] += (1 - of_a) * current[j - 1][u];
            current.push_back(std::move(chances));
        }
        shorter = std::move(current);
    }
    return shorter[m];
}

double approximate_p(const std::vector<double>& a, const std::vector<double>& b, double u) {
    std::vector<double> all = a;
    all.insert(all.end(), b.begin(), b.end());
    std::sort(all.begin(), all.end());
    double ties = 0;
    for (std::size_t first = 0; first < all.size();) {
        std::size_t last = first;
        while (last < all.size() && all[last] == all[first]) ++last;
        const auto count = static_cast<double>(last - first);
        ties += count * count * count - count;
        first = last;
    }
    const auto size = static_cast<double>(all.size());
    const double pairs = static_cast<double>(a.size()) * static_cast<double>(b.size());
    const double variance = pairs / 12 * (size + 1 - ties / (size * (size - 1)));
    if (variance <= 0) return 1;
    const double distance = std::max(0.0, std::abs(u - pairs / 2) - 0.5);  // a sum of steps by a smooth curve
    return std::min(1.0, std::erfc(distance / std::sqrt(2 * variance)));
}

/// How many of the sorted differences lie outside the interval at each end, and one more.
std::size_t approximate_end(double n, double m) {
    const double end = std::floor(n * m / 2 - normal_quantile * std::sqrt(n * m * (n + m + 1) / 12));
    return end < 1 ? 1 : static_cast<std::size_t>(end);
}

std::size_t exact_end(const std::vector<double>& chances) {
    double cumulative = 0;
    std::size_t end = 0;
    while (end < chances.size() && cumulative + chances[end] < alpha / 2) cumulative += chances[end++];
    return std::max<std::size_t>(end, 1);
}

double nth(std::vector<double>& values, std::size_t index) {
    const auto place = values.begin() + static_cast<std::ptrdiff_t>(index);
    std::nth_element(values.begin(), place, values.end());
    return *place;
}

void find_shift(std::vector<double> differences, std::size_t end, RankTest& test) {
    const std::size_t middle = differences.size() / 2;
    test.shift = nth(differences, middle);
    if (differences.size() % 2 == 0) test.shift = (test.shift + nth(differences, middle - 1)) / 2;
    test.shift_interval = {nth(differences, end - 1), nth(differences, differences.size() - end)};
}

}  // namespace

std::vector<double> midranks(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&values](std::size_t i, std::size_t j) { return values[i] < values[j]; });
    std::vector<double> ranks(values.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t last = first;
        while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
        for (std::size_t i = first; i < last; ++i) ranks[order[i]] = static_cast<double>(first + 1 + last) / 2;
        first = last;
    }
    return ranks;
}

RankTest test_ranks(const std::vector<double>& a, const std::vector<double>& b) {
    RankTest test;
    std::vector<double> differences;
    differences.reserve(a.size() * b.size());
    for (const double of_a : a)
        for (const double of_b : b) {
            differences.push_back(of_b - of_a);
            test.u += of_b > of_a ? 1.0 : (of_b == of_a ? 0.5 : 0.0);
        }
    const auto pairs = static_cast<double>(differences.size());
    test.rank_biserial = 2 * test.u / pairs - 1;
    test.exact = std::max(a.size(), b.size()) <= max_exact && !has_ties(a, b);
    std::size_t end = approximate_end(static_cast<double>(a.size()), static_cast<double>(b.size()));
    if (test.exact) {
        const std::vector<double> chances = distribution_of_u(a.size(), b.size());
        const auto smaller = static_cast<std::ptrdiff_t>(std::min(test.u, pairs - test.u));
        test.p = std::min(1.0, 2 * std::accumulate(chances.begin(), chances.begin() + smaller + 1, 0.0));
        end = exact_end(chances);
    } else {
        test.p = approximate_p(a, b, test.u);
    }
    find_shift(std::move(differences), end, test);
    return test;
}

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
        while (cumulative <= alpha / 2) {
            chance *= (independent - below) / (below + 1);
            cumulative += chance;
            ++below;
        }
    }
    const double place = std::max(0.0, below - 1) / (independent - 1);
    const auto index = static_cast<std::size_t>(place * (size - 1) + 1e-9);
    std::vector<double> sorted = values;
    interval = {nth(sorted, index), nth(sorted, values.size() - 1 - index)};
    return true;
}

}  // namespace cep::compare
