// SPDX-License-Identifier: Apache-2.0
//
// Plot: the area of a picture that values are drawn in, with the grid and the labels round it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/svg.hpp"

namespace cep::report {

inline constexpr double picture_width = 960;

/// Its edges.
struct Plot {
    double left = 0;
    double right = picture_width;
    double top = 0;
    double bottom = 0;

    [[nodiscard]] std::array<double, 4> box() const { return {left, top, right, bottom}; }
    [[nodiscard]] double width() const { return right - left; }
    [[nodiscard]] double middle() const { return left + width() / 2; }
    /// The middle of one of `count` columns of equal width.
    [[nodiscard]] double middle_of(std::size_t column, std::size_t count) const {
        return left + (static_cast<double>(column) + 0.5) * width() / static_cast<double>(count);
    }
};

using Label = std::string (*)(double);

/// Lines across at about so many round values, which stand at the left.
void draw_values_at_left(Svg& svg, const Plot& plot, const Axis& y, std::size_t about, Label label);
/// Upright lines at about so many round values, which stand at the height `labels_y`.
void draw_values_below(Svg& svg, const Plot& plot, const Axis& x, std::size_t about, double labels_y, Label label);
/// The numbers of columns of equal width at the height `y`, as many as there is room for.
void draw_column_numbers(Svg& svg, const Plot& plot, double y, const std::vector<std::int64_t>& numbers);

}  // namespace cep::report
