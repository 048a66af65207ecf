// SPDX-License-Identifier: Apache-2.0
//
// Change points: where a series changes to another level: at once, in stairs, in a ramp, or for a while.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cep::tool {

enum class ChangeShape : std::uint8_t { step, stair, ramp, burst };
inline constexpr std::string_view change_shape_names[] = {"step", "stair", "ramp", "burst"};

/// What is said of the values of one level.
struct LevelFigures {
    double typical = 0;  // the median; of a ramp the end of the fitted line
    double mean = 0;
    double long_share = 0;  // of the values: those over ChangeRules::long_ratio times what is typical before
};

/// From one level to another. Several changes in one direction are one, from the first to the last of them.
struct ChangePoint {
    ChangeShape shape = ChangeShape::step;
    std::size_t begin = 0;  // of the level before
    std::size_t first = 0;  // the first position that is no more of that level
    std::size_t last = 0;   // the first position of the new level; of a burst, the first position behind it
    std::size_t end = 0;    // of the new level, or of that behind a burst
    std::size_t stairs = 1;
    LevelFigures before{};
    LevelFigures after{};    // of a burst, during it
    bool is_typical = true;  // the typical value changed; else the share of long ones

    [[nodiscard]] std::size_t after_first() const { return shape == ChangeShape::burst ? first : last; }
    [[nodiscard]] std::size_t after_last() const { return shape == ChangeShape::burst ? last : end; }
    /// The relative change of what is typical, or else of the mean.
    [[nodiscard]] double relative() const {
        return is_typical ? after.typical / before.typical - 1 : after.mean / before.mean - 1;
    }
};

struct ChangeRules {
    double least_change = 0.02;   ///< relative
    double false_alarms = 0.001;  ///< nominal chance of a change in a series without one
    std::size_t least_steps = 8;  ///< of a level; what is shorter is an event
    double long_ratio = 1.25;     ///< a value is long beyond so many times what is typical
};

/// The changes of positive values, ascending. A start-up, in which the values fall within the first tenth or 32 of
/// them, is none.
[[nodiscard]] std::vector<ChangePoint> find_change_points(std::span<const double> values,
                                                          const ChangeRules& rules = {});

}  // namespace cep::tool
