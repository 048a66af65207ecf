// SPDX-License-Identifier: Apache-2.0
//
// Period: values that are larger at every n-th number, and only there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace cep::tool {

struct Period {
    std::int64_t length = 0;     // n, from 2 on
    std::int64_t remainder = 0;  // the numbers with this remainder
    double usual = 0;            // median of the other values
    double larger = 0;           // median of those
};

/// The shortest such period in which the median is larger by at least `least_excess`, so clearly that nearly all values
/// there and hardly any other lie above the middle between the medians. `numbers`: of the values, ascending, not
/// negative.
[[nodiscard]] std::optional<Period> find_period(std::span<const std::int64_t> numbers, std::span<const double> values,
                                                double least_excess);

}  // namespace cep::tool
