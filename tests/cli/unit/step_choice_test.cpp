// SPDX-License-Identifier: Apache-2.0
#include "model/phase_series.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/series_builder.hpp"

namespace cep::tool {
namespace {

TEST(StepChoice, EachHalvingLeavesHalfOfTheStepsThatWereLeft) {
    constexpr int steps = 1 << 17;
    for (unsigned level = 0; level < 8; ++level) {
        int kept = 0;
        for (int step = 0; step < steps; ++step) {
            const bool is_kept = StepChoice(level).keeps(step);
            kept += is_kept;
            if (is_kept && level > 0) {
                EXPECT_TRUE(StepChoice(level - 1).keeps(step));
            }
        }
        const double expected = std::ldexp(steps, -static_cast<int>(level));
        EXPECT_NEAR(kept, expected, 4 * std::sqrt(expected));
    }
    EXPECT_TRUE(StepChoice().keeps_all());
}

TEST(StepChoice, OfAllHalvingsNoStepIsLeft) {
    for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, INT64_MIN, INT64_MAX}) {
        EXPECT_FALSE(StepChoice(StepChoice::none).keeps(step));
        EXPECT_TRUE(StepChoice(StepChoice::level_of(step)).keeps(step));
    }
    EXPECT_EQ(StepChoice(1000), StepChoice(StepChoice::none));
}

/// `ranks` with one duration in each of `steps`.
StepChoice choice_for(std::uint64_t budget_samples, int ranks, int steps) {
    SampleBudget budget(budget_samples);
    StepTally of_rank;
    for (int step = 0; step < steps; ++step) of_rank.add(StepChoice::level_of(step));
    for (int rank = 0; rank < ranks; ++rank) budget.spend(of_rank, of_rank);
    return budget.choice();
}

TEST(SampleBudget, KeepsWhatFits) {
    EXPECT_EQ(choice_for(100'000, 10, 10'000), StepChoice(0));
    EXPECT_EQ(choice_for(99'999, 10, 10'000), StepChoice(1));
    EXPECT_EQ(choice_for(20'000, 10, 10'000), StepChoice(3));
}

TEST(SampleBudget, KeepsMoreRatherThanAFewStepsUpToFourTimesAsMany) {
    EXPECT_EQ(choice_for(40'000, 100, 400), StepChoice(0));
    EXPECT_EQ(choice_for(39'999, 100, 400), StepChoice(0)) << "half of the steps are few";
    EXPECT_EQ(choice_for(10'000, 100, 400), StepChoice(0));
    EXPECT_EQ(choice_for(6'000, 100, 400), StepChoice(1));
}

}  // namespace
}  // namespace cep::tool
