// SPDX-License-Identifier: Apache-2.0
//
// The fit and its standard errors against NumPy; tests/cli/test_comm.py has what follows from the fit.
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

}  // namespace
}  // namespace cep::comm
