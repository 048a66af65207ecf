// SPDX-License-Identifier: Apache-2.0
//
// The fit against closed forms and NumPy.
#include "stats/transfer_fit.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cep::comm {
namespace {

TransferFit fit(const std::vector<SizePoint>& points) {
    std::string reason;
    const auto result = fit_transfers(points, reason);
    EXPECT_TRUE(result.has_value()) << reason;
    return result.value_or(TransferFit{});
}

TEST(FitTransfers, PointsOnALineGiveTheLine) {
    std::vector<SizePoint> points;
    for (const std::int64_t bytes : {1'000, 50'000, 2'000'000, 900'000'000})
        points.push_back({bytes, 10, 0.020 + static_cast<double>(bytes) / 150e6});
    const TransferFit line = fit(points);
    EXPECT_NEAR(line.alpha_us, 20, 1e-9);
    EXPECT_NEAR(line.beta_gb_per_s.value(), 150, 1e-6);
    EXPECT_NEAR(line.r_squared, 1, 1e-12);
    EXPECT_NEAR(line.half_bytes().value(), 20e-6 * 150e9, 1e-3);
    EXPECT_NEAR(line.time_ms(150e6), 1.020, 1e-9);
    EXPECT_EQ(line.sizes, 4U);
    EXPECT_EQ(line.min_bytes, 1'000);
    EXPECT_EQ(line.max_bytes, 900'000'000);
}

// numpy.linalg.lstsq on rows (1, x) sqrt(c / (c + 4)) / fitted, repeated until the fitted times stay; standard errors
// from the inverse of its normal matrix.
TEST(FitTransfers, AgreesWithRelativeLeastSquaresOfNumPy) {
    const TransferFit line =
        fit({{1'000'000, 1, 0.040}, {8'000'000, 4, 0.110}, {64'000'000, 16, 0.700}, {256'000'000, 100, 2.500}});
    EXPECT_NEAR(line.alpha_us, 30.249646961789246, 1e-6);
    EXPECT_NEAR(line.alpha_error_us, 3.0524375594908117, 1e-5);
    EXPECT_NEAR(line.beta_gb_per_s.value(), 100.01716983361547, 1e-6);
    EXPECT_NEAR(line.beta_error_gb_per_s.value(), 2.825556122785645, 1e-5);
    EXPECT_NEAR(line.r_squared, 0.9977311430494759, 1e-9);
    // The square root of x' C x with x = (1, bytes) and C the inverse of the normal matrix times the variance.
    EXPECT_NEAR(line.time_error_ms(0, {}), line.alpha_error_us / 1e3, 1e-9);
    const double slope_error_ms = 256 / *line.beta_gb_per_s * *line.beta_error_gb_per_s / *line.beta_gb_per_s;
    EXPECT_NEAR(line.time_error_ms(256e6, {0, 1}), slope_error_ms, 1e-9);
    EXPECT_LT(line.time_error_ms(256e6, {}), slope_error_ms);  // latency and bandwidth err in opposite directions
}

// The same with Huber's weights from the median of the relative residuals: the third size met congestion.
TEST(FitTransfers, AnOutlierCountsByHubersWeight) {
    const TransferFit line = fit({{100'000, 20, 0.022},
                                  {1'000'000, 20, 0.031},
                                  {4'000'000, 20, 0.150},
                                  {16'000'000, 20, 0.179},
                                  {64'000'000, 20, 0.671},
                                  {256'000'000, 20, 2.600},
                                  {512'000'000, 20, 5.15}});
    EXPECT_NEAR(line.alpha_us, 21.024072785789063, 1e-5);
    EXPECT_NEAR(line.alpha_error_us, 1.1432762077180463, 1e-5);
    EXPECT_NEAR(line.beta_gb_per_s.value(), 99.33352728271306, 1e-5);
    EXPECT_NEAR(line.beta_error_gb_per_s.value(), 3.3253353041055878, 1e-5);
    EXPECT_NEAR(1 - line.time_ms(4'000'000) / 0.150, 0.5913836630853585, 1e-7);
}

TEST(ErrorsOf, AreOfSingleTransfers) {
    const TransferErrors errors = errors_of(std::vector<double>{1, 1, 1.1, 0.9, 1, 1, 1, 1, 1, 5});
    EXPECT_NEAR(errors.mean, 0.42, 1e-12);
    EXPECT_NEAR(errors.p90, 0.1 + 0.1 * (4 - 0.1), 1e-12);
    EXPECT_NEAR(errors.worst, 4, 1e-12);
}

// Through 0 the relative residuals are r / slope - 1, with r the milliseconds of a byte: the slope is the mean of the
// r.
TEST(FitTransfers, LatencyIsNeverNegative) {
    const TransferFit line = fit({{1'000'000, 5, 0.005}, {10'000'000, 5, 0.100}, {100'000'000, 5, 1.100}});
    EXPECT_EQ(line.alpha_us, 0);
    EXPECT_NEAR(line.beta_gb_per_s.value(), 1e-6 / ((0.005e-6 + 0.010e-6 + 0.011e-6) / 3), 1e-6);
}

TEST(FitTransfers, TimesThatDoNotGrowHaveNoBandwidth) {
    const TransferFit line = fit({{1'000, 5, 0.030}, {2'000, 5, 0.029}, {3'000, 5, 0.028}});
    EXPECT_FALSE(line.beta_gb_per_s.has_value());
    EXPECT_FALSE(line.half_bytes().has_value());
    EXPECT_NEAR(line.alpha_us, 29, 0.1);
    EXPECT_NEAR(line.time_ms(1e12), line.alpha_us / 1e3, 1e-12);
}

TEST(FitTransfers, FewerThanThreeSizesAreRefusedWithTheReason) {
    std::string reason;
    EXPECT_FALSE(fit_transfers({{1'000, 5, 0.1}, {2'000, 5, 0.2}}, reason));
    EXPECT_EQ(reason, "2 distinct sizes, and 3 are needed");
    EXPECT_FALSE(fit_transfers({{1'000, 5, 0.1}, {2'000, 5, 0.0}, {3'000, 5, -1.0}}, reason));
    EXPECT_EQ(reason, "1 distinct size, and 3 are needed");
}

}  // namespace
}  // namespace cep::comm
