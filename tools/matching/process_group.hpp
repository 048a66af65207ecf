// SPDX-License-Identifier: Apache-2.0
//
// Process groups, by the names that rows give them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "read/run_info.hpp"

namespace cep::tool {

/// Axes of the parallel layout that groups are named by.
inline constexpr std::array<std::string_view, 4> axes = {"dp", "tp", "pp", "cp"};

/// The coordinate of a rank on each of the axes, as far as its run row says.
using AxisCoordinates = std::array<std::optional<std::int64_t>, axes.size()>;
[[nodiscard]] AxisCoordinates axis_coordinates_of(const RunInfo& run);

/// A group named by its axis alone stands for one group at each coordinate on the other axes: calls
/// `use(axis, coordinate)` for these.
template <typename Use>
void for_each_other_axis(std::string_view group, const AxisCoordinates& coordinates, Use use) {
    if (std::find(axes.begin(), axes.end(), group) == axes.end()) return;
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (axes[i] != group) use(axes[i], coordinates[i]);
}

/// "dp.tp0.pp1" for "dp" at these coordinates; any other name as it is.
[[nodiscard]] std::string full_group_name(std::string_view group, const AxisCoordinates& coordinates);

/// The name of a group without what numbers it: "dp" of "dp.tp0.pp1", "dp_3" and "dp".
[[nodiscard]] std::string group_kind(std::string_view group);

}  // namespace cep::tool
