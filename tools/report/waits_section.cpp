// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/units.hpp"
#include "report/sections.hpp"

namespace cep::report {
namespace {

using tool::format_duration_ms;

Axis axis_of(const std::vector<float>& values, double from, double to, bool has_zero) {
    Range known;
    for (const float value : values) known.add(value);
    if (has_zero) return {0, std::max(known.high * 1.1, 1e-3), from, to};
    const double middle = (known.low + known.high) / 2;
    const double least = 0.1 * std::max(std::abs(middle), 1e-3);  // so that noise stays a cloud
    const double half = std::max((known.high - known.low) / 2 * 1.1, least);
    return {std::max(0.0, middle - half), middle + half, from, to};
}

/// Whether names beside two dots would lie on each other.
bool are_near(Point a, Point b) {
    return std::abs(a.first - b.first) < 60 && std::abs(a.second - b.second) < 16;
}

/// Of the ranks that are blamed. Dots that lie close together share a name.
template <typename PointOf>
void name_dots(Svg& svg, const JobView& view, PointOf point_of) {
    constexpr std::size_t most = 4;
    std::vector<std::pair<Point, std::vector<std::int64_t>>> names;
    for (const std::size_t rank : view.blamed) {
        const Point at = point_of(rank);
        if (std::isnan(at.first) || std::isnan(at.second)) continue;
        const auto near =
            std::find_if(names.begin(), names.end(), [at](const auto& name) { return are_near(name.first, at); });
        if (near == names.end()) {
            names.push_back({at, {view.ranks[rank]}});
        } else {
            near->second.push_back(view.ranks[rank]);
            near->first.first = std::max(near->first.first, at.first);
        }
    }
    if (names.size() > most) return;
    for (auto& [at, numbers] : names) {
        std::sort(numbers.begin(), numbers.end());
        svg.text("tick bad", {at.first + 9, at.second + 4}, Anchor::start, tool::format_numbers("rank", numbers, 2));
    }
}

Figure draw_waits(const JobView& view, const Layer& own, const Layer& wait) {
    const Plot plot{.left = 90, .right = picture_width - 130, .top = 24, .bottom = 290};
    const Axis x = axis_of(own.by_rank, plot.left, plot.right, false);
    const Axis y = axis_of(wait.by_rank, plot.bottom, plot.top, true);
    Svg svg(
        "waits-map", plot, "Own work against waiting, one dot for each rank",
        "Own work of a usual step from left to right, waiting for other ranks from bottom to top. A rank at the lower "
        "right works longest and waits least.");
    draw_values_below(svg, plot, x, 7, tick_ms);
    draw_values_at_left(svg, plot, y, 5, tick_ms);
    draw_axis_name(svg, plot, "own work of a step");
    svg.text("axis", {plot.left, 14}, Anchor::start, "waiting for other ranks in a step");
    const std::set<std::size_t> is_blamed(view.blamed.begin(), view.blamed.end());
    std::set<std::pair<long, long>> drawn;  // dots that lie on each other look like one
    const auto point_of = [&](std::size_t rank) { return Point(x(own.by_rank[rank]), y(wait.by_rank[rank])); };
    const auto draw_dot = [&](std::size_t rank, std::string_view style, double radius) {
        const Point at = point_of(rank);
        if (std::isnan(at.first) || std::isnan(at.second)) return;
        if (!drawn.emplace(std::lround(at.first / 2), std::lround(at.second / 2)).second) return;
        svg.circle(style, at, radius,
                   fmt::format("{}: own work {}, waiting {}", view.name_rank(rank),
                               format_duration_ms(own.by_rank[rank]), format_duration_ms(wait.by_rank[rank])));
    };
    for (std::size_t rank = 0; rank < view.ranks.size(); ++rank)
        if (!is_blamed.contains(rank)) draw_dot(rank, "dot", 4);
    drawn.clear();
    for (const std::size_t rank : view.blamed) draw_dot(rank, "dot bad", 5);
    name_dots(svg, view, point_of);
    return {svg.html()};
}

}  // namespace

Section waits_section(const Page& page) {
    const auto& [inputs, view, heat] = page;
    Section section{"waits", "Who works, who waits"};
    if (view.ranks.size() == 1) return section.without("One rank has no others to wait for.");
    if (view.ranks.size() < 3)
        return section.without("Fewer than three ranks are seen at a glance in the table of ranks.");
    const Layer* own = heat.find(0, Measure::own);
    const Layer* wait = heat.find(0, Measure::wait);
    if (own == nullptr)
        return section.without("What ranks do by themselves and what they wait for is not known apart.");
    if (wait == nullptr)
        return section.without("No collective is timed, so that waiting for other ranks is not known.");
    if (std::all_of(wait->by_rank.begin(), wait->by_rank.end(), [](float ms) { return std::isnan(ms); }))
        return section.without("No collective could be matched between ranks, so that waiting is not known.");
    section.look =
        "A rank at the lower right works longer than the others and waits for nobody: the others wait for it. A cloud "
        "without such a dot is a job whose ranks are alike.";
    section.figures.push_back(draw_waits(view, *own, *wait));
    return section;
}

}  // namespace cep::report
