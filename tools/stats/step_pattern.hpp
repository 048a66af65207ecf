// SPDX-License-Identifier: Apache-2.0
//
// Step pattern: the stride of recorded steps, and the steps that it leaves out.
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

}  // namespace cep::tool
