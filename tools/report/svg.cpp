// SPDX-License-Identifier: Apache-2.0
#include "report/svg.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.hpp"
#include "show/document.hpp"

namespace cep::report {
namespace {

using tool::html_text;

/// A tenth of a pixel is enough.
std::string number(double value) {
    std::string text = fmt::format("{:.1f}", value);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text == "-0" ? "0" : text;
}

bool is_known(Point point) {
    return std::isfinite(point.first) && std::isfinite(point.second);
}

std::string coordinates(Point point) {
    return number(point.first) + " " + number(point.second);
}

double round_step(double range, std::size_t about) {
    const double raw = range / static_cast<double>(std::max<std::size_t>(1, about));
    const double power = std::pow(10, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (raw <= factor * power * 1.0001) return factor * power;
    return 10 * power;
}

/// How wide the bars must be, in pixels, for a text to fit on a segment of them: one of the widths of the style sheet,
/// or 0.
int least_track_px(std::string_view text, double percent) {
    constexpr double character_px = 7;
    const double needed_px = (static_cast<double>(text.size()) + 1) * character_px / percent * 100;
    for (const int width : {200, 300, 400, 500, 600, 700, 800})
        if (needed_px <= width) return width;
    return 0;
}

std::string segment_html(const BarSegment& segment, double most) {
    const double from = 100 * segment.from / most;
    const double width = std::max(100 * (segment.to - segment.from) / most, 0.15);
    std::string html =
        fmt::format("<rect class=\"part {}\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"100%\"><title>{}</title></rect>",
                    segment.style, from, width, html_text(segment.tip));
    if (const int least_px = least_track_px(segment.text, width); least_px > 0 && !segment.text.empty())
        html += fmt::format("<text class=\"on {} from{}\" x=\"{:.2f}%\" y=\"65%\" text-anchor=\"middle\">{}</text>",
                            segment.style, least_px, from + width / 2, html_text(segment.text));
    return html;
}

}  // namespace

Svg::Svg(std::string_view id, const Plot& last, std::string_view title, std::string_view description) {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-t {}-d\">\n"
        "<title id=\"{}-t\">{}</title>\n<desc id=\"{}-d\">{}</desc>\n",
        number(picture_width), number(last.bottom + 40), id, id, id, html_text(title), id, html_text(description));
}

void Svg::close(std::string_view element, std::string_view tip) {
    svg_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", html_text(tip), element);
}

void Svg::rect(std::string_view style, double x, double y, double width, double height, std::string_view tip) {
    svg_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", style, number(x), number(y),
                        number(std::max(width, 0.1)), number(std::max(height, 0.1)));
    close("rect", tip);
}

void Svg::path(std::string_view style, const std::vector<Point>& points, std::string_view tip) {
    std::string shape;
    bool is_drawing = false;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const bool known = is_known(points[i]);
        const bool alone = known && !is_drawing && (i + 1 == points.size() || !is_known(points[i + 1]));
        if (known) shape += (is_drawing ? "L" : "M") + coordinates(points[i]) + (alone ? "h1" : "");
        is_drawing = known;
    }
    if (shape.empty()) return;
    svg_ += fmt::format("<path class=\"{}\" d=\"{}\"", style, shape);
    close("path", tip);
}

void Svg::band(std::string_view style, const std::vector<Point>& upper, const std::vector<Point>& lower) {
    const auto known = [&](std::size_t i) { return i < upper.size() && is_known(upper[i]) && is_known(lower[i]); };
    std::string shape;
    std::string back;
    for (std::size_t i = 0; i < upper.size(); ++i) {
        if (!known(i)) continue;
        shape += (back.empty() ? "M" : "L") + coordinates(upper[i]);
        back.insert(0, "L" + coordinates(lower[i]));
        if (!known(i + 1)) shape += std::exchange(back, "") + "Z";
    }
    if (!shape.empty()) svg_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", style, shape);
}

void Svg::circle(std::string_view style, Point centre, double radius, std::string_view tip) {
    if (!is_known(centre)) return;
    svg_ += fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"", style, number(centre.first),
                        number(centre.second), number(radius));
    close("circle", tip);
}

void Svg::text(std::string_view style, Point at, Anchor anchor, std::string_view text) {
    constexpr std::array<std::string_view, 3> attributes = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    svg_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>\n", style, number(at.first),
                        number(at.second), attributes[static_cast<std::size_t>(anchor)], html_text(text));
}

void Svg::group(std::string_view id, const Plot& plot, double width_ms) {
    svg_ += fmt::format("<g id=\"{}\" data-box=\"{} {} {} {}\" data-ms=\"{}\">\n", id, number(plot.left),
                        number(plot.top), number(plot.right), number(plot.bottom), width_ms);
}

void Svg::group(std::string_view id) {
    svg_ += fmt::format("<g id=\"{}\">\n", id);
}

void Svg::png(double x, double y, double width, double height, std::string_view data) {
    svg_ += fmt::format(
        "<image class=\"pixels\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
        "href=\"data:image/png;base64,{}\"/>\n",
        number(x), number(y), number(width), number(height), data);
}

Axis::Axis(double low, double high, double from, double to, bool is_log)
    : low_(low), high_(high > low ? high : low + 1), from_(from), to_(to), is_log_(is_log) {
    if (is_log && !(high > low)) high_ = low * 10;
}

double Axis::operator()(double value) const {
    const double share = is_log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
}

std::vector<double> Axis::ticks(std::size_t about) const {
    std::vector<double> ticks;
    if (is_log_) {
        const double decades = std::log10(high_ / low_);
        const bool is_short = decades * 2 < static_cast<double>(about);
        const double factor = std::pow(10, std::max(1.0, std::ceil(decades / static_cast<double>(about))));
        for (double power = std::pow(10, std::floor(std::log10(low_))); power <= high_; power *= factor)
            for (const double times : {1.0, 2.0, 5.0})
                if ((times == 1 || is_short) && power * times >= low_ && power * times <= high_)
                    ticks.push_back(power * times);
        return ticks;
    }
    const double step = round_step(high_ - low_, about);
    for (double tick = std::ceil(low_ / step - 1e-9) * step; tick <= high_ + 1e-9 * step; tick += step)
        ticks.push_back(std::abs(tick) < 1e-9 * step ? 0 : tick);
    return ticks;
}

std::string tick_ms(double ms) {
    if (ms == 0) return "0";
    if (ms >= 1000) return fmt::format("{:.4g} s", ms / 1000);
    return ms >= 1 ? fmt::format("{:.4g} ms", ms) : fmt::format("{:.4g} µs", ms * 1000);
}

std::string tick_bytes(double bytes) {
    if (bytes == 0) return "0";
    for (const auto& [unit, size] :
         {std::pair("TB", 1e12), std::pair("GB", 1e9), std::pair("MB", 1e6), std::pair("kB", 1e3)})
        if (bytes >= size) return fmt::format("{:.4g} {}", bytes / size, unit);
    return fmt::format("{:.4g} B", bytes);
}

void draw_values_at_left(Svg& svg, const Plot& plot, const Axis& y, std::size_t about, Label label) {
    for (const double value : y.ticks(about)) {
        svg.line("grid", {plot.left, y(value)}, {plot.right, y(value)});
        svg.text("tick", {plot.left - 6, y(value) + 4}, Anchor::end, label(value));
    }
}

void draw_values_below(Svg& svg, const Plot& plot, const Axis& x, std::size_t about, Label label,
                       std::string_view zero) {
    for (const double value : x.ticks(about)) {
        svg.line(value == 0 ? zero : "grid", {x(value), plot.top}, {x(value), plot.bottom});
        svg.text("tick", {x(value), plot.bottom + 16}, Anchor::middle, label(value));
    }
}

void draw_column_numbers(Svg& svg, const Plot& plot, const std::vector<std::int64_t>& numbers) {
    constexpr std::size_t most = 9;
    const std::size_t count = std::min(numbers.size(), most);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t column = count == 1 ? 0 : i * (numbers.size() - 1) / (count - 1);
        svg.text("tick", {plot.middle_of(column, numbers.size()), plot.bottom + 16}, Anchor::middle,
                 tool::format_integer(numbers[column]));
    }
}

void draw_axis_name(Svg& svg, const Plot& plot, std::string_view name) {
    svg.text("axis", {plot.left + plot.width() / 2, plot.bottom + 34}, Anchor::middle, name);
}

std::string bars_html(const std::vector<Bar>& bars, double most, const std::string& description) {
    std::string html = "<div class=\"bars\" role=\"group\" aria-label=\"" + html_text(description) + "\">\n";
    for (const Bar& bar : bars) {
        html += fmt::format("<span class=\"name\">{}<small>{}</small></span><svg class=\"track\" aria-hidden=\"true\">",
                            html_text(bar.label), html_text(bar.note));
        for (const BarSegment& segment : bar.segments) html += segment_html(segment, most > 0 ? most : 1);
        html += "</svg><span class=\"value\">" + html_text(bar.value) + "</span>\n";
    }
    return html + "</div>\n";
}

}  // namespace cep::report
