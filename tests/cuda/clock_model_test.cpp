// SPDX-License-Identifier: Apache-2.0
#include "cuda/clock_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace cep::cuda {
namespace {

constexpr double second_ns = 1e9;

/// A GPU clock with a known relation to the host's clock: host = gpu · (1 + drift) + offset.
struct Truth {
    double drift = 0;
    std::int64_t offset_ns = 0;

    [[nodiscard]] std::int64_t host_ns(double gpu_ns) const {
        return offset_ns + static_cast<std::int64_t>(std::llround(gpu_ns * (1 + drift)));
    }

    /// An anchor whose event is at `place` (0 to 1) within its bracket.
    [[nodiscard]] ClockModel::Anchor anchor(double gpu_ns, std::int64_t width_ns, double place) const {
        const std::int64_t before_ns =
            host_ns(gpu_ns) - static_cast<std::int64_t>(std::llround(static_cast<double>(width_ns) * place));
        return {gpu_ns, before_ns, before_ns + width_ns};
    }
};

/// Places within a bracket, and widths, that vary from anchor to anchor without random numbers.
double place_of(int i) {
    return 0.05 + 0.9 * std::fmod(static_cast<double>(i) * 0.618034, 1.0);
}
std::int64_t width_of(int i) {
    return 4'000 + 7'000 * (i * 5 % 7) + (i % 11 == 3 ? 900'000 : 0);
}

/// Compares the model with the true clock at both ends and in the middle of the range of its error.
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

TEST_P(ClockModelTest, ErrorBoundHoldsIfASubmissionIsTighterThanAnyBracket) {
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

TEST_P(ClockModelTest, RestartDropsTheOriginAndKeepsTheDrift) {
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

TEST(ClockModelTest, OneAnchorMapsItsOwnTimeToTheMiddleOfItsBracket) {
    ClockModel model;
    model.add({5e9, 1'000, 9'000});
    EXPECT_EQ(model.host_ns(5e9), 5'000);
    EXPECT_GE(model.error_ns(0), 4'000);
}

/// A GPU clock whose drift changes: host(gpu) in pieces, each with a drift that may itself change evenly.
class ChangingClock {
  public:
    /// From this GPU time on, the drift has this value and changes by `ppm_per_s`. Call in the order of the times.
    void change(double gpu_ns, double ppm, double ppm_per_s = 0) {
        const long double from_host_ns = pieces_.empty() ? 0.0L : exact_host_ns(gpu_ns);
        pieces_.push_back({gpu_ns, from_host_ns, ppm * 1e-6L, ppm_per_s * 1e-15L});
    }

    [[nodiscard]] std::int64_t host_ns(double gpu_ns) const { return std::llround(exact_host_ns(gpu_ns)); }

    [[nodiscard]] ClockModel::Anchor anchor(double gpu_ns, std::int64_t width_ns, double place) const {
        const std::int64_t before_ns = host_ns(gpu_ns) - std::llround(static_cast<double>(width_ns) * place);
        return {gpu_ns, before_ns, before_ns + width_ns};
    }

  private:
    struct Piece {
        double from_gpu_ns;
        long double from_host_ns;
        long double drift;
        long double drift_per_ns;
    };

    [[nodiscard]] long double exact_host_ns(double gpu_ns) const {
        auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), gpu_ns,
                                      [](double time_ns, const Piece& p) { return time_ns < p.from_gpu_ns; });
        if (piece != pieces_.begin()) --piece;
        const long double passed_ns = static_cast<long double>(gpu_ns) - piece->from_gpu_ns;
        return piece->from_host_ns + passed_ns * (1 + piece->drift + passed_ns * piece->drift_per_ns / 2);
    }

    std::vector<Piece> pieces_;
};

/// The largest excess of the error over its bound in a range of GPU time; negative: the bound holds everywhere.
std::int64_t excess_ns(const ClockModel& model, const ChangingClock& clock, double latest_ns, double from_ns,
                       double to_ns) {
    constexpr int points = 20;
    std::int64_t worst_ns = std::numeric_limits<std::int64_t>::min();
    for (int i = 0; i <= points; ++i) {
        const double at_ns = from_ns + (to_ns - from_ns) * i / points;
        const std::int64_t bound_ns = model.error_ns(std::llround(std::abs(at_ns - latest_ns)));
        worst_ns = std::max(worst_ns, std::int64_t{std::llabs(model.host_ns(at_ns) - clock.host_ns(at_ns))} - bound_ns);
    }
    return worst_ns;
}

class SteepDriftTest : public testing::TestWithParam<double> {
  protected:
    SteepDriftTest() { clock.change(0, GetParam()); }

    ChangingClock clock;
    ClockModel model;
};

TEST_P(SteepDriftTest, ErrorIsAsSmallAsThatOfAFlatDrift) {
    for (int i = 0; i < 40; ++i) model.add(clock.anchor(i * second_ns, 8'000, place_of(i)));
    EXPECT_NEAR(model.drift_ppm(), GetParam(), 0.5);
    EXPECT_LE(model.error_ns(std::llround(second_ns)), 8'000);
}

INSTANTIATE_TEST_SUITE_P(PartsPerMillion, SteepDriftTest, testing::Values(-1500.0, -500.0, 300.0, 600.0, 1500.0));

TEST(ClockModelTest, ErrorBoundsTheSteepestDriftWithinTheLimitFromTheFirstAnchorOn) {
    ChangingClock clock;
    clock.change(0, 600);
    ClockModel model;
    for (int i = 0; i < 100; ++i) {
        const double gpu_ns = i * 20e6;
        model.add(clock.anchor(gpu_ns, width_of(i), place_of(i)));
        EXPECT_LE(excess_ns(model, clock, gpu_ns, gpu_ns - second_ns, gpu_ns + second_ns), 0) << i;
        EXPECT_FALSE(model.prediction_failed()) << i;
    }
}

/// The host's clock is slewed by 500 ppm from second 40.5 to 60.5. There is an anchor each second.
class SlewTest : public testing::Test {
  protected:
    SlewTest() {
        clock.change(0, 0);
        clock.change(40.5 * second_ns, 500);
        clock.change(60.5 * second_ns, 0);
    }

    void add(int i) { model.add(clock.anchor(i * second_ns, 8'000, place_of(i))); }

    ChangingClock clock;
    ClockModel model;
};

TEST_F(SlewTest, PredictionFailsOnlyAtTheFirstAnchorAfterItsBeginAndItsEnd) {
    for (int i = 0; i < 100; ++i) {
        add(i);
        EXPECT_EQ(model.prediction_failed(), i == 41 || i == 61) << i << " s";
    }
}

TEST_F(SlewTest, PredictionErrorIsTheDistanceOutsideTheBound) {
    for (int i = 0; i <= 40; ++i) add(i);
    EXPECT_EQ(model.prediction_error_ns(), 0);
    const std::int64_t bound_ns = model.error_ns(std::llround(second_ns));
    add(41);
    EXPECT_NEAR(static_cast<double>(model.prediction_error_ns()), 250'000.0 - static_cast<double>(bound_ns), 8'000);
    model.restart();
    EXPECT_FALSE(model.prediction_failed());
}

TEST_F(SlewTest, ErrorBecomesSmallAgain) {
    for (int i = 0; i < 60; ++i) add(i);
    EXPECT_LE(model.error_ns(std::llround(second_ns)), 20'000);
    for (int i = 60; i < 100; ++i) add(i);
    EXPECT_LE(model.error_ns(std::llround(second_ns)), 8'000);
}

TEST_F(SlewTest, SubmissionAfterThePredictedTimeIsAFailedPrediction) {
    for (int i = 0; i <= 40; ++i) add(i);
    const double gpu_ns = 40.9 * second_ns;
    model.observe_submission(gpu_ns, clock.host_ns(gpu_ns) - 5'000);
    EXPECT_TRUE(model.prediction_failed());
    EXPECT_LE(excess_ns(model, clock, 40 * second_ns, 39 * second_ns, 42 * second_ns), 0);
}

TEST(ClockModelTest, FadingSlewIsBoundedExceptBetweenAChangeAndItsDetection) {
    ChangingClock clock;
    clock.change(0, 3);
    for (int i = 0; i < 600; ++i) clock.change((30 + i) * second_ns, 3 + 100 * std::pow(255.0 / 256.0, i));
    ClockModel model;
    for (int i = 0; i < 300; ++i) {
        const double gpu_ns = i * second_ns;
        model.add(clock.anchor(gpu_ns, 8'000, place_of(i)));
        if (i != 30) {
            EXPECT_LE(excess_ns(model, clock, gpu_ns, gpu_ns - second_ns, gpu_ns + second_ns), 0) << i;
        }
    }
}

TEST(ClockModelTest, WanderOfADriftIsNotAFailedPrediction) {
    for (unsigned seed = 0; seed < 100; ++seed) {
        std::mt19937_64 chance(seed);
        std::uniform_real_distribution<double> ppm_per_s(-0.05, 0.05);
        ChangingClock clock;
        ClockModel model;
        double ppm = 20;
        for (int i = 0; i < 200; ++i) {
            const double gpu_ns = i * second_ns;
            const double wander = ppm_per_s(chance);
            clock.change(gpu_ns, ppm, wander);
            ppm += wander;
            model.add(clock.anchor(gpu_ns, width_of(i), place_of(i)));
            ASSERT_LE(excess_ns(model, clock, gpu_ns, std::max(0.0, gpu_ns - 60 * second_ns), gpu_ns + second_ns), 0)
                << seed << ": " << i << " s";
            ASSERT_FALSE(model.prediction_failed()) << seed << ": " << i << " s";
        }
    }
}

// The kernel steers in steps of a tick, so that the drift of one second is not quite that of the next.
TEST(ClockModelTest, ErrorCoversAndHardlyExceedsTheNoiseOfASettledDrift) {
    constexpr double noise_ppm = 0.2;
    ChangingClock clock;
    ClockModel model;
    for (int i = 0; i < 200; ++i) {
        const double gpu_ns = i * second_ns;
        clock.change(gpu_ns, 20 + (i % 2 == 0 ? noise_ppm : -noise_ppm));
        model.add(clock.anchor(gpu_ns, 100, place_of(i)));
        if (i == 0) continue;
        ASSERT_LE(excess_ns(model, clock, gpu_ns, gpu_ns - second_ns, gpu_ns + second_ns), 0) << i << " s";
        ASSERT_FALSE(model.prediction_failed()) << i << " s";
        if (i >= 60) {
            ASSERT_LE(model.error_ns(std::llround(second_ns)), 900) << i << " s";
        }
    }
}

TEST(ClockModelTest, ErrorFarFromTheLatestAnchorIsThatOfASteadyDriftOrOfAnyDrift) {
    ClockModel model;
    for (int i = 0; i < 100; ++i) model.add({i * second_ns, i * 1'000'000'000LL - 4'000, i * 1'000'000'000LL + 4'000});
    EXPECT_LE(model.error_ns(60'000'000'000), 250'000);  // 4 ppm
    constexpr std::int64_t unknown_ns = 10'000'000'000;  // before the first anchor
    EXPECT_GE(model.error_ns(99'000'000'000 + unknown_ns) - model.error_ns(99'000'000'000), unknown_ns * 6 / 10'000);
}

TEST(ClockModelTest, ElapsedTimeIsRoundedToTheLastOf24Bits) {
    EXPECT_EQ(ClockModel::elapsed_rounding_ns(1'000'000'000), 62);
    EXPECT_EQ(ClockModel::elapsed_rounding_ns(-8'000'000'000), 489);
    EXPECT_EQ(ClockModel::elapsed_rounding_ns(60'000'000'000), 3'907);
}

/// A random machine: drift, wander, slews of the host's clock, anchors and their brackets.
class Scenario {
  public:
    explicit Scenario(unsigned seed) : chance_(seed), ppm_(uniform(-100, 100)) {
        follows_advice_ = uniform(0, 1) < 0.5;
        fixed_interval_ns_ = uniform(0, 1) < 0.5 ? 20e6 : uniform(0.02, 2) * second_ns;
        clock_.change(0, ppm_);
    }

    void run(int anchors) {
        for (int i = 0; i < anchors; ++i) {
            add_anchor();
            const double next_ns = gpu_ns_ + interval_ns();
            const double known_until_ns = plan_until(next_ns);
            if (!unnoticed_) check(known_until_ns);
            if (known_until_ns < next_ns) unnoticed_ = true;
            observe_submission(next_ns);
            gpu_ns_ = next_ns;
        }
    }

    std::int64_t worst_ns = std::numeric_limits<std::int64_t>::min();
    int checked = 0;
    int unchecked = 0;
    int unreported = 0;  ///< predictions wrong by more than their bound and a bracket that prediction_failed() missed

  private:
    double uniform(double from, double to) { return std::uniform_real_distribution<double>(from, to)(chance_); }

    [[nodiscard]] std::int64_t bracket_width_ns() {
        return std::llround(uniform(0, 1) < 0.1 ? uniform(20'000, 2'000'000) : uniform(2'000, 20'000));
    }

    void add_anchor() {
        const ClockModel::Anchor anchor = clock_.anchor(gpu_ns_, bracket_width_ns(), uniform(0, 1));
        const bool first = model_.empty();
        const std::int64_t wrong_ns = std::llabs(model_.host_ns(gpu_ns_) - clock_.host_ns(gpu_ns_));
        const std::int64_t bound_ns = model_.error_ns(std::llround(gpu_ns_ - latest_ns_));
        model_.add(anchor);
        latest_ns_ = gpu_ns_;
        if (model_.prediction_failed()) unnoticed_ = false;
        if (!first && !model_.prediction_failed() && wrong_ns > bound_ns + anchor.after_ns - anchor.before_ns + 500)
            ++unreported;
        unchecked += unnoticed_;
    }

    /// The interval that the model advises: short after a failed prediction, then longer and longer.
    [[nodiscard]] double interval_ns() {
        if (!follows_advice_) return fixed_interval_ns_;
        advised_interval_ns_ = model_.prediction_failed() ? 20e6 : std::min(advised_interval_ns_ * 1.5, second_ns);
        return advised_interval_ns_;
    }

    /// Lets the drift wander, and sometimes slews the clock. Returns the time until which the drift is predictable.
    double plan_until(double next_ns) {
        const double wander = uniform(-0.05, 0.05);
        clock_.change(gpu_ns_, ppm_, wander);
        const double ppm_now = ppm_;
        ppm_ += wander * (next_ns - gpu_ns_) / second_ns;
        if (uniform(0, 1) > 0.03) return next_ns;
        const double change_ns = uniform(gpu_ns_, next_ns);
        crystal_ppm_ = slewing_ ? crystal_ppm_ : ppm_now;
        ppm_ = slewing_ ? crystal_ppm_ : ppm_now + uniform(-500, 500);
        slewing_ = !slewing_;
        clock_.change(change_ns, ppm_);
        last_change_ns_ = change_ns;
        return change_ns;
    }

    void check(double until_ns) {
        ++checked;
        const double from_ns = uniform(0, 1) < 0.1 ? 0 : std::max(0.0, latest_ns_ - 3 * second_ns);
        worst_ns = std::max(worst_ns, excess_ns(model_, clock_, latest_ns_, from_ns, until_ns));
    }

    void observe_submission(double next_ns) {
        const double at_ns = uniform(latest_ns_, std::min(next_ns, latest_ns_ + 30e6));
        const std::int64_t anchor_error_ns = model_.prediction_error_ns();
        model_.observe_submission(at_ns, clock_.host_ns(at_ns) - std::llround(uniform(500, 30'000)));
        if (model_.prediction_error_ns() > anchor_error_ns && last_change_ns_ < at_ns) unnoticed_ = false;
    }

    std::mt19937_64 chance_;
    ChangingClock clock_;
    ClockModel model_;
    double ppm_;
    double crystal_ppm_ = 0;
    bool slewing_ = false;
    bool follows_advice_;
    double fixed_interval_ns_;
    double advised_interval_ns_ = 20e6;
    double gpu_ns_ = 0;
    double latest_ns_ = 0;
    double last_change_ns_ = -1;
    bool unnoticed_ = false;  ///< the drift has changed, and no anchor has detected it yet
};

TEST(ClockModelTest, ErrorBoundHoldsInEveryScenarioExceptForUndetectedChanges) {
    int checked = 0;
    int unchecked = 0;
    for (unsigned seed = 0; seed < 10'000; ++seed) {
        Scenario scenario(seed);
        scenario.run(60);
        EXPECT_LE(scenario.worst_ns, 0) << "scenario " << seed;
        EXPECT_EQ(scenario.unreported, 0) << "scenario " << seed;
        checked += scenario.checked;
        unchecked += scenario.unchecked;
    }
    EXPECT_GT(checked, 10 * unchecked);
}

}  // namespace
}  // namespace cep::cuda
