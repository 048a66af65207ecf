// SPDX-License-Identifier: Apache-2.0
#include "report/plot.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace cep::report {

void draw_values_at_left(Svg& svg, const Plot& plot, const Axis& y, std::size_t about, Label label) {
    for (const double value : y.ticks(about)) {
        svg.line("grid", {plot.left, y(value)}, {plot.right, y(value)});
        svg.text("tick", {plot.left - 6, y(value) + 4}, Anchor::end, label(value));
    }
}

void draw_values_below(Svg& svg, const Plot& plot, const Axis& x, std::size_t about, double labels_y, Label label) {
    for (const double value : x.ticks(about)) {
        svg.line("grid", {x(value), plot.top}, {x(value), plot.bottom});
        svg.text("tick", {x(value), labels_y}, Anchor::middle, label(value));
    }
}

void draw_column_numbers(Svg& svg, const Plot& plot, double y, const std::vector<std::int64_t>& numbers) {
    constexpr std::size_t most = 9;
    const std::size_t count = std::min(numbers.size(), most);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t column = count == 1 ? 0 : i * (numbers.size() - 1) / (count - 1);
        svg.text("tick", {plot.middle_of(column, numbers.size()), y}, Anchor::middle,
                 tool::format_integer(numbers[column]));
    }
}

}  // namespace cep::report
