// SPDX-License-Identifier: Apache-2.0
#include "record/stride_control.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace {

using namespace cep;

constexpr std::int64_t ms = 1'000'000;

/// A trainer whose recorded steps cost `cost_ns` each, in 100 timed calls. It decides at the end of each time.
class Trainer {
  public:
    Trainer(double max_percent, std::int64_t stride) : control_(max_percent, stride), stride_(stride) {
        EXPECT_FALSE(decide());
    }

    /// Runs for that many strides of steps, and decides once.
    std::optional<StrideChange> run(std::int64_t strides, std::int64_t step_ns, std::uint64_t cost_ns) {
        const std::int64_t steps = strides * stride_;
        step_ += steps;
        now_ns_ += steps * step_ns;
        cost_.timed_calls += 100 * static_cast<std::uint64_t>(strides);
        cost_.cost_ns += cost_ns * static_cast<std::uint64_t>(strides);
        return decide();
    }
    void go_to(std::int64_t step) { step_ = step; }
    [[nodiscard]] std::optional<StrideChange> decide() {
        const auto change = control_.decide(cost_, step_, now_ns_);
        if (change) stride_ = change->to;
        return change;
    }
    [[nodiscard]] std::int64_t stride() const { return stride_; }

  private:
    StrideControl control_;
    std::int64_t stride_;
    cep::TrainerCost cost_;
    std::int64_t step_ = 0;
    std::int64_t now_ns_ = 0;
};

TEST(StrideControl, LengthensByThePowerOfTwoThatKeepsBelowTheBound) {
    Trainer trainer(0.1, 1);
    const auto change = trainer.run(100, 10 * ms, 31'000);  // 0.31 %
    ASSERT_TRUE(change);
    EXPECT_EQ(change->from, 1);
    EXPECT_EQ(change->to, 4);
    EXPECT_EQ(change->step, 100);
    EXPECT_NEAR(change->cost_percent, 0.31, 1e-9);
}

TEST(StrideControl, CountsTheStepsThatAreNotRecorded) {
    Trainer trainer(0.1, 10);
    EXPECT_FALSE(trainer.run(100, 10 * ms, 99'000));  // 0.99 % of a recorded step, 0.099 % of all
    const auto change = trainer.run(100, 10 * ms, 110'000);
    ASSERT_TRUE(change);
    EXPECT_EQ(change->to, 20);
}

TEST(StrideControl, ComesBackByHalvesOnlyWhenTheCostIsAQuarterOfTheBound) {
    Trainer trainer(0.1, 3);
    ASSERT_TRUE(trainer.run(100, 10 * ms, 90'000));  // 0.3 %: four times
    ASSERT_EQ(trainer.stride(), 12);
    EXPECT_FALSE(trainer.run(100, 10 * ms, 31'200));  // 0.026 %
    const auto change = trainer.run(100, 10 * ms, 29'000);
    ASSERT_TRUE(change);
    EXPECT_EQ(change->from, 12);
    EXPECT_EQ(change->to, 6);
    EXPECT_FALSE(trainer.run(100, 10 * ms, 29'000));  // 0.048 % now
}

TEST(StrideControl, NeverGoesBelowTheUsersStride) {
    Trainer trainer(0.1, 3);
    ASSERT_TRUE(trainer.run(100, 10 * ms, 90'000));
    for (int i = 0; i < 10; ++i) (void)trainer.run(100, 10 * ms, 0);
    EXPECT_EQ(trainer.stride(), 3);
}

TEST(StrideControl, WaitsForThirtyTwoStrides) {
    Trainer trainer(0.1, 8);
    EXPECT_FALSE(trainer.run(31, ms, ms));
    EXPECT_TRUE(trainer.run(1, ms, ms));
}

TEST(StrideControl, WaitsForSevenTimedCalls) {
    StrideControl control(0.1, 1);
    EXPECT_FALSE(control.decide({0, 0}, 0, 0));
    EXPECT_FALSE(control.decide({6, 100'000'000}, 1000, 1000 * ms));
    EXPECT_TRUE(control.decide({7, 100'000'000}, 1000, 1000 * ms));
}

TEST(StrideControl, CountsFromTheBeginOfTheFirstStep) {
    StrideControl control(0.1, 1);
    control.start(0, 0);
    control.start(50, 50 * ms);  // only the first call counts
    const auto change = control.decide({10, 200'000}, 100, 100 * ms);
    ASSERT_TRUE(change);
    EXPECT_NEAR(change->cost_percent, 0.2, 1e-9);
}

TEST(StrideControl, WaitsForTheFirstStep) {
    StrideControl control(0.1, 1);
    EXPECT_FALSE(control.decide({0, 0}, -1, 0));
    EXPECT_FALSE(control.decide({0, 0}, 0, 60'000 * ms));  // the minute before the first step does not count
    const auto change = control.decide({64, 2 * ms}, 100, 61'000 * ms);
    ASSERT_TRUE(change);
    EXPECT_NEAR(change->cost_percent, 0.2, 1e-9);
}

TEST(StrideControl, StartsAnewWhenStepsGoBack) {
    Trainer trainer(0.1, 1);
    EXPECT_FALSE(trainer.run(100, ms, 0));
    trainer.go_to(20);
    EXPECT_FALSE(trainer.run(10, ms, ms));  // starts at step 30
    EXPECT_FALSE(trainer.run(20, ms, ms));
    EXPECT_TRUE(trainer.run(20, ms, ms));
}

TEST(StrideControl, StopsBeforeTheStrideOverflows) {
    StrideControl control(1e-300, INT64_MAX / 3);
    EXPECT_FALSE(control.decide({0, 0}, 0, 0));
    EXPECT_FALSE(control.decide({100, 100}, INT64_MAX, ms));  // three strides are not enough
    StrideControl smaller(1e-300, INT64_MAX / 64);
    EXPECT_FALSE(smaller.decide({0, 0}, 0, 0));
    const auto change = smaller.decide({100, 100}, INT64_MAX, ms);
    ASSERT_TRUE(change);
    EXPECT_GT(change->to, INT64_MAX / 4);
}

}  // namespace
