// SPDX-License-Identifier: Apache-2.0
//
// SVG, and HTML with bars of it: pictures as text. Colours are classes of the page's style sheet, so that a picture
// follows its theme.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "show/table.hpp"

namespace cep::report {

using tool::shorten;

using Point = std::pair<double, double>;

enum class Anchor { start, middle, end };

inline constexpr double picture_width = 960;

/// Its edges.
struct Plot {
    double left = 0;
    double right = picture_width;
    double top = 0;
    double bottom = 0;

    [[nodiscard]] double width() const { return right - left; }
    /// The middle of one of `count` columns of equal width.
    [[nodiscard]] double middle_of(std::size_t column, std::size_t count) const {
        return left + (static_cast<double>(column) + 0.5) * width() / static_cast<double>(count);
    }
};

/// One of several plots of the same height below each other.
[[nodiscard]] inline Plot stacked_plot(double left, std::size_t index) {
    const double top = 30 + static_cast<double>(index) * 130;
    return {left, picture_width - 20, top, top + 96};
}

class Svg {
  public:
    /// Ends below its last plot, with room for values and the name of an axis. `title` and `description` stand for the
    /// picture where it cannot be seen. `id` is unique in the page.
    Svg(std::string_view id, const Plot& last, std::string_view title, std::string_view description);

    /// `tip`: shown when pointed at; "" for none.
    void rect(std::string_view style, double x, double y, double width, double height, std::string_view tip = {});
    void line(std::string_view style, Point from, Point to, std::string_view tip = {}) { path(style, {from, to}, tip); }
    /// Lines from point to point; gaps where a coordinate is NaN.
    void path(std::string_view style, const std::vector<Point>& points, std::string_view tip = {});
    /// An area between two rows of points with the same x, left out where either is NaN.
    void band(std::string_view style, const std::vector<Point>& upper, const std::vector<Point>& lower);
    void circle(std::string_view style, Point centre, double radius, std::string_view tip = {});
    void text(std::string_view style, Point at, Anchor anchor, std::string_view text);
    /// What the script of the page changes when a part is enlarged: the area of a plot, and the time that it is wide.
    void group(std::string_view id, const Plot& plot, double width_ms = 0);
    void group(std::string_view id);
    void end_group() { svg_ += "</g>\n"; }
    /// `data`: base64 of a PNG.
    void png(double x, double y, double width, double height, std::string_view data);

    /// HTML that scrolls rather than being smaller than its text can be read.
    [[nodiscard]] std::string html() const { return "<div class=\"scroll\" tabindex=\"0\">" + svg_ + "</svg>\n</div>"; }

  private:
    void close(std::string_view element, std::string_view tip);

    std::string svg_;
};

/// A range of values along an axis.
class Axis {
  public:
    Axis(double low, double high, double from, double to, bool is_log = false);

    [[nodiscard]] double operator()(double value) const;
    /// Round values within it, about as many as asked for.
    [[nodiscard]] std::vector<double> ticks(std::size_t about) const;
    /// The value, or the end of the axis that it is beyond.
    [[nodiscard]] double clip(double value) const { return value < low_ ? low_ : value > high_ ? high_ : value; }

  private:
    double low_;
    double high_;
    double from_;
    double to_;
    bool is_log_;
};

/// Labels of round values: "20 ms", "1.5 s", "500 kB".
[[nodiscard]] std::string tick_ms(double ms);
[[nodiscard]] std::string tick_bytes(double bytes);

using Label = std::string (*)(double);

/// Lines across at about so many round values, which stand at the left.
void draw_values_at_left(Svg& svg, const Plot& plot, const Axis& y, std::size_t about, Label label);
/// Upright lines at about so many round values, which stand below. `zero`: the style of the one at 0.
void draw_values_below(Svg& svg, const Plot& plot, const Axis& x, std::size_t about, Label label,
                       std::string_view zero = "grid");
/// The numbers of columns of equal width, as many as there is room for.
void draw_column_numbers(Svg& svg, const Plot& plot, const std::vector<std::int64_t>& numbers);
/// What stands below a plot.
void draw_axis_name(Svg& svg, const Plot& plot, std::string_view name);

/// Bars: lengths beside each other, as HTML that is as wide as the page.
struct BarSegment {
    std::string style;  // its class
    double from = 0;
    double to = 0;
    std::string tip;
    std::string text{};  // on it, if there is room
};

struct Bar {
    std::string label;
    std::string note;  // below the label
    std::vector<BarSegment> segments;
    std::string value;  // behind the bar
};

/// `most`: the length of the whole width. `description` stands for the picture where it cannot be seen.
[[nodiscard]] std::string bars_html(const std::vector<Bar>& bars, double most, const std::string& description);

}  // namespace cep::report
