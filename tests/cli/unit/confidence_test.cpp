// SPDX-License-Identifier: Apache-2.0
#include "stats/confidence.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cep::tool {
namespace {

using Series = std::vector<double>;

// Worked by hand: 4 · 0.005, 3 · 0.01, 2 · 0.03, and 0.04 no less than the one before.
TEST(CorrectByHolm, MultipliesByTheNumberOfClaimsThatAreLeft) {
    const Series corrected = correct_by_holm({0.01, 0.04, 0.03, 0.005});
    const Series expected = {0.03, 0.06, 0.06, 0.02};
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(corrected[i], expected[i], 1e-15);
    EXPECT_EQ(correct_by_holm({0.9, 0.8}), (Series{1, 1}));
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
    Series values;
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

// The example of SciPy's mannwhitneyu: males over females in 17 of 20 pairs.
TEST(CountLargerPairs, AgreesWithAPublishedExample) {
    EXPECT_EQ(count_larger_pairs({19, 22, 16, 29, 24}, Series{20, 11, 17, 12}), 3);
    EXPECT_EQ(count_larger_pairs({1, 2, 2}, Series{2, 3}), 2 + 3);
}

}  // namespace
}  // namespace cep::tool
