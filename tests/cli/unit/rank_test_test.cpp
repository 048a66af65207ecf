// SPDX-License-Identifier: Apache-2.0
//
// Rank tests against published examples, and against brute force over all ways to choose the first sample.
#include "stats/rank_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace cep::compare {
namespace {

using Sample = std::vector<double>;

double u_of(const Sample& a, const Sample& b) {
    double u = 0;
    for (const double of_a : a)
        for (const double of_b : b) u += of_b > of_a ? 1.0 : (of_b == of_a ? 0.5 : 0.0);
    return u;
}

/// U of every way to choose a sample of a's size from all values.
Sample all_u(const Sample& a, const Sample& b) {
    Sample all = a;
    all.insert(all.end(), b.begin(), b.end());
    std::vector<char> chosen(all.size(), 0);
    std::fill(chosen.end() - static_cast<std::ptrdiff_t>(a.size()), chosen.end(), 1);
    Sample result;
    do {
        Sample first;
        Sample second;
        for (std::size_t i = 0; i < all.size(); ++i) (chosen[i] != 0 ? first : second).push_back(all[i]);
        result.push_back(u_of(first, second));
    } while (std::next_permutation(chosen.begin(), chosen.end()));
    return result;
}

double enumerated_p(const Sample& a, const Sample& b) {
    const double u = u_of(a, b);
    const auto pairs = static_cast<double>(a.size() * b.size());
    const Sample all = all_u(a, b);
    const auto as_small = std::count_if(all.begin(), all.end(), [&](double x) { return x <= std::min(u, pairs - u); });
    return std::min(1.0, 2 * static_cast<double>(as_small) / static_cast<double>(all.size()));
}

Sample shifted(Sample values, double by) {
    for (double& value : values) value += by;
    return values;
}

Sample random_sample(std::mt19937_64& random, std::size_t size) {
    Sample values;
    for (std::size_t i = 0; i < size; ++i) values.push_back(static_cast<double>(random() >> 40));
    return values;
}

// The example of SciPy's mannwhitneyu: U = 17 of males over females, p = 0.1111.
TEST(TestRanks, AgreesWithAPublishedExample) {
    const RankTest test = test_ranks({19, 22, 16, 29, 24}, {20, 11, 17, 12});
    EXPECT_EQ(test.u, 3);
    EXPECT_TRUE(test.exact);
    EXPECT_NEAR(test.p, 1.0 / 9, 1e-12);
    EXPECT_NEAR(test.rank_biserial, 2 * 3 / 20.0 - 1, 1e-12);
}

TEST(TestRanks, ExactPIsThatOfAllOrders) {
    std::mt19937_64 random(1);
    for (const auto& [n, m] : {std::pair(1, 1), std::pair(2, 7), std::pair(5, 5), std::pair(8, 6)})
        for (int i = 0; i < 5; ++i) {
            const Sample a = random_sample(random, static_cast<std::size_t>(n));
            const Sample b = shifted(random_sample(random, static_cast<std::size_t>(m)), i * 2e6);
            EXPECT_NEAR(test_ranks(a, b).p, enumerated_p(a, b), 1e-12);
        }
}

TEST(TestRanks, TiesTakeTheNormalApproximationWithTheVarianceOfAllOrders) {
    const Sample a = {1, 2, 2, 3, 5, 5};
    const Sample b = {2, 3, 4, 5, 5, 7, 7};
    const Sample all = all_u(a, b);
    const double mean = 6 * 7 / 2.0;
    double variance = 0;
    for (const double u : all) variance += (u - mean) * (u - mean) / static_cast<double>(all.size());
    const RankTest test = test_ranks(a, b);
    EXPECT_FALSE(test.exact);
    EXPECT_NEAR(test.p, std::erfc((std::abs(test.u - mean) - 0.5) / std::sqrt(2 * variance)), 1e-12);
}

TEST(TestRanks, EqualSamplesDoNotDiffer) {
    const RankTest test = test_ranks({4, 4, 4}, {4, 4, 4, 4});
    EXPECT_EQ(test.p, 1);
    EXPECT_EQ(test.shift, 0);
    EXPECT_EQ(test.rank_biserial, 0);
}

// Hodges and Lehmann's estimate.
TEST(TestRanks, ShiftIsTheMedianOfAllDifferences) {
    std::mt19937_64 random(2);
    for (const std::size_t n : {1U, 4U, 7U, 60U}) {
        const Sample a = random_sample(random, n);
        const Sample b = random_sample(random, n + 1);
        Sample differences;
        for (const double of_a : a)
            for (const double of_b : b) differences.push_back(of_b - of_a);
        std::sort(differences.begin(), differences.end());
        const std::size_t middle = differences.size() / 2;
        const double median =
            differences.size() % 2 == 1 ? differences[middle] : (differences[middle - 1] + differences[middle]) / 2;
        EXPECT_EQ(test_ranks(a, b).shift, median);
    }
}

TEST(TestRanks, ShiftsInsideTheIntervalAreNotRejectedAndThoseOutsideAre) {
    std::mt19937_64 random(3);
    for (const auto& [n, m] : {std::pair(5, 5), std::pair(6, 8), std::pair(7, 7)}) {
        const Sample a = random_sample(random, static_cast<std::size_t>(n));
        const Sample b = random_sample(random, static_cast<std::size_t>(m));
        const ConfidenceInterval interval = test_ranks(a, b).shift_interval;
        constexpr double little = 0.25;
        EXPECT_GT(enumerated_p(shifted(a, interval.low + little), b), 0.05);
        EXPECT_GT(enumerated_p(shifted(a, interval.high - little), b), 0.05);
        EXPECT_LE(enumerated_p(shifted(a, interval.low - little), b), 0.05);
        EXPECT_LE(enumerated_p(shifted(a, interval.high + little), b), 0.05);
    }
}

TEST(TestRanks, ApproximationIsCloseToTheExactTestWhereItTakesOver) {
    std::mt19937_64 random(4);
    const Sample a = random_sample(random, 50);
    const Sample b = shifted(random_sample(random, 50), 2.5e6);
    Sample longer = b;
    longer.push_back(b[0] + 0.5);
    EXPECT_TRUE(test_ranks(a, b).exact);
    EXPECT_FALSE(test_ranks(a, longer).exact);
    EXPECT_NEAR(test_ranks(a, longer).p / test_ranks(a, b).p, 1, 0.25);
}

TEST(Midranks, EqualValuesShareTheirRank) {
    EXPECT_EQ(midranks({3, 1, 3, 2, 3}), (Sample{4, 1, 4, 2, 4}));
    EXPECT_EQ(midranks({}), Sample{});
}

// Worked by hand: 4 · 0.005, 3 · 0.01, 2 · 0.03, and 0.04 no less than the one before.
TEST(CorrectByHolm, MultipliesByTheNumberOfClaimsThatAreLeft) {
    const Sample corrected = correct_by_holm({0.01, 0.04, 0.03, 0.005});
    const Sample expected = {0.03, 0.06, 0.06, 0.02};
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(corrected[i], expected[i], 1e-15);
    EXPECT_EQ(correct_by_holm({0.9, 0.8}), (Sample{1, 1}));
}

// Of 6 values the extremes have 1 − 2 · 2⁻⁶ = 97 %; of 10 the second and the ninth 98 %; of 5 the extremes only 94 %.
TEST(MedianInterval, IsThatOfTheSignTest) {
    ConfidenceInterval interval;
    EXPECT_FALSE(median_interval({1, 2, 3, 4, 5}, 1, interval));
    ASSERT_TRUE(median_interval({6, 5, 4, 3, 2, 1}, 1, interval));
    EXPECT_EQ(interval.low, 1);
    EXPECT_EQ(interval.high, 6);
    ASSERT_TRUE(median_interval({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 1, interval));
    EXPECT_EQ(interval.low, 2);
    EXPECT_EQ(interval.high, 9);
}

TEST(MedianInterval, OfCorrelatedValuesIsAsWideAsThatOfFewer) {
    Sample values;
    for (int i = 0; i < 20; ++i) values.push_back(i);
    ConfidenceInterval independent;
    ConfidenceInterval correlated;
    ASSERT_TRUE(median_interval(values, 1, independent));
    ASSERT_TRUE(median_interval(values, 2, correlated));
    EXPECT_EQ(independent.low, 5);  // the sixth: P(at most 5 of 20 below the median) = 0.0207
    EXPECT_EQ(correlated.low, 2);
    EXPECT_EQ(correlated.high, 17);
    EXPECT_FALSE(median_interval(values, 4, correlated));
}

}  // namespace
}  // namespace cep::compare
