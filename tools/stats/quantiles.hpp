// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

namespace cep::tool {

/// The position of a quantile (type 7) among `count` sorted values, which are not none.
struct QuantilePosition {
    QuantilePosition(double q, std::size_t count)
        : below(static_cast<std::size_t>(q * static_cast<double>(count - 1))),
          above(std::min(below + 1, count - 1)),
          fraction(q * static_cast<double>(count - 1) - static_cast<double>(below)) {}

    [[nodiscard]] double between(double value, double next) const {
        return fraction == 0 ? value : value + (next - value) * fraction;
    }

    std::size_t below;
    std::size_t above;
    double fraction;
};

/// The quantile of 0 ≤ q ≤ 1 by linear interpolation between order statistics (Hyndman and Fan's type 7, the default
/// of NumPy and R). Values that are NaN are missing and left out; NaN of none.
[[nodiscard]] double quantile_of(std::span<const double> values, double q);
[[nodiscard]] std::vector<double> quantiles_of(std::span<const double> values, std::initializer_list<double> qs);
[[nodiscard]] double median_of(std::span<const double> values);

/// The same of values whose order it may change, none of which is missing; fastest where `qs` ascend.
void take_quantiles(std::span<double> values, std::span<const double> qs, std::span<double> found);

}  // namespace cep::tool
