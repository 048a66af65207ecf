// SPDX-License-Identifier: Apache-2.0
#include "stats/robust.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "job_tables.hpp"

namespace cep::tool {
namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

TEST(Robust, QuantilesLeaveOutWhatIsMissing) {
    // numpy.nanquantile([4, nan, 1, 3, nan, 2], [0, .25, .5, .9, 1])
    const std::vector<double> values = {4, no_value, 1, 3, no_value, 2};
    EXPECT_DOUBLE_EQ(quantile_of(values, 0), 1);
    EXPECT_DOUBLE_EQ(quantile_of(values, 0.25), 1.75);
    EXPECT_DOUBLE_EQ(median_of(values), 2.5);
    EXPECT_DOUBLE_EQ(quantile_of(values, 0.9), 3.7);
    EXPECT_DOUBLE_EQ(quantile_of(values, 1), 4);
    EXPECT_TRUE(is_missing(median_of(std::vector<double>{no_value})));
}

TEST(Robust, DeviationIsThatOfNormalValues) {
    // By hand: median 3, distances 2, 1, 0, 1, 97, their median 1.
    EXPECT_DOUBLE_EQ(robust_deviation(std::vector<double>{1, 2, 3, 4, 100}), normal_consistency);
    Normal normal(1);
    std::vector<double> values;
    for (int i = 0; i < 20000; ++i) values.push_back(5 + 2 * normal());
    EXPECT_NEAR(robust_deviation(values), 2, 0.06);  // its standard error is 0.023
}

TEST(Robust, LagCorrelationIsThatOfNeighbours) {
    // By hand, about 0, of 1, 2, -1, -2, 1, 2, -1, -2, 1: products 2, -2, 2, -2, 2, -2, 2, -2; mean squares 2.5 each.
    const std::vector<double> values = {1, 2, -1, -2, 1, 2, -1, -2, 1};
    EXPECT_NEAR(lag_correlation(values, 0, 10), 0, 1e-12);
    const std::vector<double> shifted = {2, 2, 2, 2, 0, 0, 0, 0, 2};  // about 1: products 1, 1, 1, -1, 1, 1, 1, -1
    EXPECT_NEAR(lag_correlation(shifted, 1, 10), 0.5, 1e-12);
    EXPECT_NEAR(lag_correlation(shifted, 1, 0.25), 0.5, 1e-12);
    const std::vector<double> outlier = {1, -1, 1, -1, 1, -1, 1, -1, 1000};
    EXPECT_NEAR(lag_correlation(outlier, 0, 1), -1, 1e-12);
    EXPECT_TRUE(is_missing(lag_correlation(std::vector<double>(8, 1.0), 0, 10))) << "seven pairs are too few";
    EXPECT_TRUE(is_missing(lag_correlation(std::vector<double>(20, 1.0), 1, 10))) << "no variation";
}

TEST(Robust, MovingMediansAreThoseOfTheWindows) {
    Normal normal(2);
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) values.push_back(normal());
    for (const std::size_t reach : {0U, 1U, 4U, 60U}) {
        const std::vector<double> medians = moving_medians(values, reach);
        ASSERT_EQ(medians.size(), values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto first = values.begin() + static_cast<std::ptrdiff_t>(i - std::min(i, reach));
            const auto last = values.begin() + static_cast<std::ptrdiff_t>(std::min(i + reach + 1, values.size()));
            EXPECT_DOUBLE_EQ(medians[i], sorted_quantile({first, last}, 0.5)) << i << " of " << reach;
        }
    }
}

// Pascal's triangle and all terms, from the smallest up.
double binomial_tail_by_terms(std::size_t k, std::size_t n, double p) {
    double sum = 0;
    for (std::size_t i = n + 1; i-- > k;) {
        double choose = 1;
        for (std::size_t j = 0; j < i; ++j) choose = choose * static_cast<double>(n - j) / static_cast<double>(j + 1);
        sum += choose * std::pow(p, static_cast<double>(i)) * std::pow(1 - p, static_cast<double>(n - i));
    }
    return sum;
}

TEST(Robust, BinomialTailIsTheSumOfItsTerms) {
    for (const std::size_t n : {1U, 5U, 60U})
        for (const double p : {1e-3, 0.05, 0.3, 0.5, 0.97})
            for (std::size_t k = 0; k <= n; ++k) {
                const double expected = binomial_tail_by_terms(k, n, p);
                EXPECT_NEAR(binomial_tail(k, n, p), expected, 1e-9 * expected) << k << " of " << n << " at " << p;
            }
    // Closed forms.
    EXPECT_NEAR(binomial_tail(1, 1000, 1e-3), 1 - std::pow(0.999, 1000), 1e-12);
    EXPECT_NEAR(binomial_tail(1000, 1000, 0.5) / std::pow(0.5, 1000), 1, 1e-9);
    EXPECT_EQ(binomial_tail(0, 10, 0.3), 1);
    EXPECT_EQ(binomial_tail(11, 10, 0.3), 0);
}

TEST(Robust, BestSegmentHasTheLargestSum) {
    Normal normal(3);
    for (int round = 0; round < 50; ++round) {
        std::vector<double> scores;
        for (int i = 0; i < 30; ++i) scores.push_back(normal() - 0.2);
        double best = -1e9;
        Segment expected;
        for (std::size_t first = 0; first < scores.size(); ++first) {
            double sum = 0;
            for (std::size_t last = first; last < scores.size(); ++last) {
                sum += scores[last];
                if (sum > best) {
                    best = sum;
                    expected = {first, last};
                }
            }
        }
        const Segment found = best_segment(scores);
        EXPECT_EQ(found.first, expected.first);
        EXPECT_EQ(found.last, expected.last);
    }
}

TEST(Robust, StudentsTailIsThatOfTables) {
    EXPECT_NEAR(student_tail(2.228, 10), 0.025, 1e-5);
    EXPECT_NEAR(student_tail(-2.228, 10), 0.975, 1e-5);
    EXPECT_NEAR(student_tail(4.785, 7), 0.001, 1e-6);
    EXPECT_NEAR(student_tail(1, 1), 0.25, 1e-12) << "Cauchy";
    EXPECT_NEAR(student_tail(3, 1e5), normal_tail(3), 1e-6);
    EXPECT_NEAR(student_quantile(0.025, 10), 2.228, 1e-3);
    EXPECT_NEAR(student_tail(student_quantile(1e-6, 5), 5) / 1e-6, 1, 1e-6);
}

}  // namespace
}  // namespace cep::tool
