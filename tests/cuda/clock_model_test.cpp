// SPDX-License-Identifier: Apache-2.0
#include "cuda/clock_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace cep::cuda {
namespace {

constexpr double second_ns = 1e9;

/// A GPU clock whose true relation to the host's is known: host = gpu · (1 + drift) + offset.
struct Truth {
    double drift = 0;
    std::int64_t offset_ns = 0;

    [[nodiscard]] std::int64_t host_ns(double gpu_ns) const {
        return offset_ns + static_cast<std::int64_t>(std::llround(gpu_ns * (1 + drift)));
    }

    /// An anchor whose event lies at `place` (0 to 1) of its bracket.
    [[nodiscard]] ClockModel::Anchor anchor(double gpu_ns, std::int64_t width_ns, double place) const {
        const std::int64_t before_ns =
            host_ns(gpu_ns) - static_cast<std::int64_t>(std::llround(static_cast<double>(width_ns) * place));
        return {gpu_ns, before_ns, before_ns + width_ns};
    }
};

/// Places within a bracket, and widths, that differ from anchor to anchor without chance.
double place_of(int i) {
    return 0.05 + 0.9 * std::fmod(static_cast<double>(i) * 0.618034, 1.0);
}
std::int64_t width_of(int i) {
    return 4'000 + 7'000 * (i * 5 % 7) + (i % 11 == 3 ? 900'000 : 0);
}

/// Compares the model with the truth at both ends and in the middle of what its error is given for.
void expect_bounded(const ClockModel& model, const Truth& truth, double gpu_ns, double reach_ns, int anchors) {
    const std::int64_t bound_ns = model.error_ns(std::llround(reach_ns));
    for (double share : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
        const double at_ns = gpu_ns + share * reach_ns;
        EXPECT_LE(std::llabs(model.host_ns(at_ns) - truth.host_ns(at_ns)), bound_ns)
            << share * reach_ns * 1e-6 << " ms from the last of " << anchors << " anchors";
    }
}

class ClockModelTest : public testing::TestWithParam<double> {
  protected:
    Truth truth{.drift = GetParam() * 1e-6, .offset_ns = 1'700'000'000'000'000};
    ClockModel model;
};

TEST_P(ClockModelTest, ErrorBoundsWhatIsWithinReachOfTheLastAnchor) {
    for (int i = 0; i < 100; ++i) {
        model.add(truth.anchor(i * second_ns, width_of(i), place_of(i)));
        expect_bounded(model, truth, i * second_ns, second_ns, i + 1);
    }
}

TEST_P(ClockModelTest, ErrorBoundsFromTheFirstOfEverRarerAnchorsOn) {
    double gpu_ns = 0;
    double interval_ns = 20e6;
    for (int i = 0; i < 60; ++i) {
        model.add(truth.anchor(gpu_ns, width_of(i), place_of(i)));
        expect_bounded(model, truth, gpu_ns, interval_ns, i + 1);
        gpu_ns += interval_ns;
        interval_ns = std::min(interval_ns * 1.5, second_ns);
    }
}

TEST_P(ClockModelTest, ErrorBoundsWhereASubmissionIsNarrowerThanAnyBracket) {
    for (int i = 0; i < 40; ++i) {
        const double gpu_ns = i * second_ns;
        model.add(truth.anchor(gpu_ns, 9'000, place_of(i)));
        const double submitted_gpu_ns = gpu_ns - 5e6;
        model.observe_submission(submitted_gpu_ns, truth.host_ns(submitted_gpu_ns) - 700);
        expect_bounded(model, truth, gpu_ns, second_ns, i + 1);
    }
    EXPECT_LE(model.error_ns(0), 9'000 / 2);
}

TEST_P(ClockModelTest, DriftIsRecovered) {
    for (int i = 0; i < 32; ++i) model.add(truth.anchor(i * second_ns, 8'000, place_of(i)));
    EXPECT_NEAR(model.drift_ppm(), GetParam(), 0.5);
}

TEST_P(ClockModelTest, ErrorShrinksBelowOneBracketOnceTheDriftIsKnown) {
    for (int i = 0; i < 32; ++i) model.add(truth.anchor(i * second_ns, 8'000, place_of(i)));
    EXPECT_LE(model.error_ns(std::llround(second_ns)), 8'000);
}

TEST_P(ClockModelTest, RestartForgetsTheOriginAndKeepsTheDrift) {
    for (int i = 0; i < 32; ++i) model.add(truth.anchor(i * second_ns, 8'000, place_of(i)));
    const double drift_ppm = model.drift_ppm();
    model.restart();
    EXPECT_TRUE(model.empty());
    const Truth later{.drift = truth.drift, .offset_ns = truth.offset_ns + 3'600'000'000'000};
    model.add(later.anchor(0, 8'000, 0.2));
    EXPECT_EQ(model.drift_ppm(), drift_ppm);
    expect_bounded(model, later, 0, second_ns, 1);
    EXPECT_LE(model.error_ns(std::llround(second_ns)), 8'000);
}

TEST_P(ClockModelTest, ClockFarFromZeroIsAsExactAsOneAtZero) {
    constexpr double origin_ns = 40.0 * 86400 * second_ns;  // a GPU that has been on for 40 days
    for (int i = 0; i < 32; ++i) model.add(truth.anchor(origin_ns + i * second_ns, 8'000, place_of(i)));
    EXPECT_NEAR(model.drift_ppm(), GetParam(), 0.5);
    expect_bounded(model, truth, origin_ns + 31 * second_ns, second_ns, 32);
}

INSTANTIATE_TEST_SUITE_P(PartsPerMillion, ClockModelTest, testing::Values(-50.0, -7.0, 0.0, 0.3, 50.0));

TEST(ClockModelTest, ErrorCoversADriftThatChanges) {
    ClockModel model;
    std::int64_t host_ns = 0;
    double gpu_ns = 0;
    for (int i = 0; i < 60; ++i) {
        model.add({gpu_ns, host_ns - 3'000, host_ns + 5'000});
        EXPECT_LE(std::llabs(model.host_ns(gpu_ns) - host_ns), model.error_ns(1'000'000'000)) << i << " s";
        gpu_ns += second_ns;
        host_ns += 1'000'000'000 + (i < 30 ? 20'000 : -20'000);  // 20 ppm, then −20
    }
}

TEST(ClockModelTest, OneAnchorMapsItsOwnTimeToTheMiddleOfItsBracket) {
    ClockModel model;
    model.add({5e9, 1'000, 9'000});
    EXPECT_EQ(model.host_ns(5e9), 5'000);
    EXPECT_GE(model.error_ns(0), 4'000);
}

}  // namespace
}  // namespace cep::cuda
