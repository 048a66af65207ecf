// SPDX-License-Identifier: Apache-2.0
//
// Step pattern: the stride of recorded steps, the steps that it leaves out, and values that are larger at every n-th.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cep::tool {

/// From a step to one that is not before it. Unsigned, as it may not fit an int64.
[[nodiscard]] constexpr std::uint64_t step_difference(std::int64_t from, std::int64_t to) {
    return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
}

/// The difference that at least half of neighbouring steps have, which ascend; nothing for fewer than three steps.
[[nodiscard]] std::optional<std::int64_t> infer_stride(std::span<const std::int64_t> steps);

struct MissingSteps {
    static constexpr std::size_t max_listed = 1000;
    std::uint64_t count = 0;
    std::vector<std::int64_t> listed;  // the first max_listed
};

/// Steps between the first and the last of ascending steps that a stride says should be there.
[[nodiscard]] MissingSteps find_missing_steps(std::span<const std::int64_t> steps, std::int64_t stride);

/// Values that are larger at every n-th number, and only there.
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
