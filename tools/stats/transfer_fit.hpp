// SPDX-License-Identifier: Apache-2.0
//
// Transfer fit: latency and bandwidth from transfers of several sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cep::comm {

/// All transfers of one size.
struct SizePoint {
    std::int64_t bytes = 0;
    std::uint64_t collectives = 0;
    double transfer_ms = 0;  // the median over them
};

/// time = alpha + bytes / beta (Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994).
struct TransferFit {
    double alpha_us = 0;
    double alpha_error_us = 0;            // standard errors, of the scatter of the sizes round the line
    std::optional<double> beta_gb_per_s;  // nothing: the time does not grow with the bytes
    std::optional<double> beta_error_gb_per_s;
    double alpha_beta_covariance = 0;  // of alpha in ms and the time for max_bytes in ms
    double r_squared = 0;
    std::size_t sizes = 0;
    std::int64_t min_bytes = 0;
    std::int64_t max_bytes = 0;

    [[nodiscard]] double time_ms(double bytes) const { return time_ms(bytes, {}); }
    /// Where alpha and the time for a byte are so many times as long.
    struct Factors {
        double alpha = 1;
        double byte = 1;
    };
    [[nodiscard]] double time_ms(double bytes, const Factors& factors) const;
    /// Its standard error.
    [[nodiscard]] double time_error_ms(double bytes, const Factors& factors) const;
    /// The size at which half of beta is reached, Hockney's n½.
    [[nodiscard]] std::optional<double> half_bytes() const;
};

/// By how much transfers are longer or shorter than a fit says, over the time that it says.
struct TransferErrors {
    double mean = 0;
    double p90 = 0;
    double worst = 0;
};

/// `ratios`: of each transfer, its time over the fitted one. At least one.
[[nodiscard]] TransferErrors errors_of(std::span<const double> ratios);

inline constexpr std::size_t min_sizes = 3;

/// Points come ordered by size, each size once. Nothing where it is refused; `reason` then says why.
[[nodiscard]] std::optional<TransferFit> fit_transfers(const std::vector<SizePoint>& points, std::string& reason);

}  // namespace cep::comm
