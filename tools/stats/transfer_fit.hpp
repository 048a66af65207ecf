// SPDX-License-Identifier: Apache-2.0
//
// Transfer fit: latency and bandwidth from transfers of several sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
    double r_squared = 0;
    double mean_relative_error = 0;  // over sizes, of the fitted time against the median of the transfers
    double max_relative_error = 0;
    std::size_t sizes = 0;
    std::int64_t min_bytes = 0;
    std::int64_t max_bytes = 0;

    [[nodiscard]] double time_ms(double bytes) const;
    /// The size at which half of beta is reached, Hockney's n½.
    [[nodiscard]] std::optional<double> half_bytes() const;
};

inline constexpr std::size_t min_sizes = 3;

/// Points come ordered by size, each size once. Nothing where it is refused; `reason` then says why.
[[nodiscard]] std::optional<TransferFit> fit_transfers(const std::vector<SizePoint>& points, std::string& reason);

}  // namespace cep::comm
