// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/units.hpp"
#include "report/plot.hpp"
#include "report/sections.hpp"
#include "show/html.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

using tool::Cell;
using tool::format_duration_ms;

/// Patches of colour with names, in as many rows as they need. Returns their height.
double draw_legend(Svg& svg, const std::vector<BreakdownPart>& parts, double left, double top) {
    double x = left;
    double y = top;
    for (const BreakdownPart& part : parts) {
        const std::string name = shorten(part.name, 28);
        const double needed = 30 + 7.2 * static_cast<double>(name.size());
        if (x + needed > picture_width) {
            x = left;
            y += 20;
        }
        svg.rect("part " + part.style, x, y, 12, 12);
        svg.text("tick", {x + 17, y + 10}, Anchor::start, name);
        x += needed;
    }
    return y + 20 - top;
}

double share_of(double ms, double of_ms) {
    return of_ms > 0 ? 100 * ms / of_ms : 0;
}

Figure draw(const JobView& view, const Breakdown& breakdown) {
    constexpr double bar_height = 30;
    constexpr double bar_gap = 18;
    const double bars_height = static_cast<double>(breakdown.bars.size()) * (bar_height + bar_gap);
    double most = 0;
    for (const BreakdownBar& bar : breakdown.bars) most = std::max(most, bar.step_ms);
    Svg svg(
        "breakdown", picture_width, 70 + bars_height + 40, "Where the time of a step goes",
        "One bar for each of a few ranks: all of its time, divided by its steps. What runs beside compute is hidden "
        "and takes no part of the bar. The table below has the numbers.");
    Plot plot{.left = 190, .right = picture_width - 20};
    plot.top = draw_legend(svg, breakdown.parts, plot.left, 4) + 10;
    plot.bottom = plot.top + bars_height;
    const Axis x(0, most, plot.left, plot.right);
    draw_values_below(svg, plot, x, 6, plot.bottom + 16, tick_ms);
    double y = plot.top + 6;
    for (const BreakdownBar& bar : breakdown.bars) {
        svg.text("label", {plot.left - 8, y + 13}, Anchor::end, shorten(view.name_rank(bar.rank), 26));
        svg.text("tick", {plot.left - 8, y + 27}, Anchor::end, bar.label);
        double at = 0;
        for (std::size_t i = 0; i < bar.ms.size(); ++i) {
            if (!(bar.ms[i] > 0)) continue;
            const double from = x(at);
            at += bar.ms[i];
            svg.rect("part " + breakdown.parts[i].style, from, y, x(at) - from, bar_height,
                     fmt::format("{}: {} ({:.1f} %)", breakdown.parts[i].name, format_duration_ms(bar.ms[i]),
                                 share_of(bar.ms[i], bar.step_ms)));
            if (x(at) - from > 54)
                svg.text("on-" + breakdown.parts[i].style, {(from + x(at)) / 2, y + 20}, Anchor::middle,
                         format_duration_ms(bar.ms[i]));
        }
        y += bar_height + bar_gap;
    }
    return {svg.finish(), ""};
}

tool::Table breakdown_table(const JobView& view, const Breakdown& breakdown) {
    std::vector<tool::Column> columns = {{"part", "where the time of a step goes", tool::Align::left, "", ""}};
    for (const BreakdownBar& bar : breakdown.bars)
        columns.push_back(
            {"ms", fmt::format("{}: {}", bar.label, view.name_rank(bar.rank)), tool::Align::right, "ms", ""});
    tool::Table table(std::move(columns));
    for (std::size_t i = 0; i < breakdown.parts.size(); ++i) {
        std::vector<Cell> cells = {Cell::text_of(breakdown.parts[i].name)};
        for (const BreakdownBar& bar : breakdown.bars)
            cells.push_back(Cell::words(
                fmt::format("{} ({:.1f} %)", format_duration_ms(bar.ms[i]), share_of(bar.ms[i], bar.step_ms))));
        table.add(std::move(cells));
    }
    std::vector<Cell> cells = {Cell::words("all")};
    for (const BreakdownBar& bar : breakdown.bars) cells.push_back(Cell::words(format_duration_ms(bar.step_ms)));
    table.add(std::move(cells));
    return table;
}

Axis axis_of(const std::vector<float>& values, double from, double to, bool has_zero) {
    double low = INFINITY;
    double high = -INFINITY;
    for (const float value : values) {
        if (std::isnan(value)) continue;
        low = std::min<double>(low, value);
        high = std::max<double>(high, value);
    }
    if (has_zero) low = 0;
    const double middle = (low + high) / 2;
    const double least = 0.1 * std::max(std::abs(middle), 1e-3);  // so that noise stays a cloud
    const double half = std::max((high - low) / 2 * 1.1, least);
    return {has_zero ? 0 : std::max(0.0, middle - half), has_zero ? std::max(high * 1.1, 1e-3) : middle + half, from,
            to};
}

Figure draw_waits(const JobView& view, const Layer& own, const Layer& wait) {
    const Plot plot{.left = 90, .right = picture_width - 130, .top = 24, .bottom = 290};
    const Axis x = axis_of(own.by_rank, plot.left, plot.right, false);
    const Axis y = axis_of(wait.by_rank, plot.bottom, plot.top, true);
    Svg svg(
        "waits", picture_width, plot.bottom + 50, "Own work against waiting, one dot for each rank",
        "Own work of a usual step from left to right, waiting for other ranks from bottom to top. A rank at the lower "
        "right works longest and waits least.");
    draw_values_below(svg, plot, x, 7, plot.bottom + 17, tick_ms);
    draw_values_at_left(svg, plot, y, 5, tick_ms);
    svg.text("axis", {plot.middle(), plot.bottom + 38}, Anchor::middle, "own work of a step");
    svg.text("axis", {plot.left, 14}, Anchor::start, "waiting for other ranks in a step");
    const std::vector<std::size_t> blamed = view.blamed_ranks();
    const std::set<std::size_t> is_blamed(blamed.begin(), blamed.end());
    std::set<std::pair<long, long>> drawn;  // dots that lie on each other look like one
    const auto place = [&](std::size_t rank) { return Point(x(own.by_rank[rank]), y(wait.by_rank[rank])); };
    const auto draw_dot = [&](std::size_t rank, std::string_view style, double radius) {
        const Point at = place(rank);
        if (std::isnan(at.first) || std::isnan(at.second)) return;
        if (!drawn.emplace(std::lround(at.first / 2), std::lround(at.second / 2)).second) return;
        svg.circle(style, at, radius,
                   fmt::format("{}: own work {}, waiting {}", view.name_rank(rank),
                               format_duration_ms(own.by_rank[rank]), format_duration_ms(wait.by_rank[rank])));
    };
    for (std::size_t rank = 0; rank < view.ranks.size(); ++rank)
        if (!is_blamed.contains(rank)) draw_dot(rank, "dot", 4);
    drawn.clear();
    for (const std::size_t rank : blamed) draw_dot(rank, "dot bad", 5);
    if (blamed.size() <= 4)  // names of more would lie on each other
        for (const std::size_t rank : blamed)
            svg.text("tick bad", {place(rank).first + 9, place(rank).second + 4}, Anchor::start,
                     fmt::format("rank {}", view.ranks[rank]));
    return {svg.finish(), ""};
}

}  // namespace

Section breakdown_section(const JobView& view, const Breakdown& breakdown) {
    const std::string heading = "Where the time goes";
    if (!breakdown.empty.empty()) return Section::without("breakdown", heading, breakdown.empty);
    return {
        "breakdown",
        heading,
        "All of a rank's time, divided by its steps, of the rank with the most own work, a usual one and the one with "
        "the least: what one works longer, the others wait.",
        {},
        {draw(view, breakdown)},
        breakdown_table(view, breakdown).html(0)};
}

Section waits_section(const JobView& view, const HeatMap& heat) {
    const std::string heading = "Who works, who waits";
    const Layer* own = heat.find(0, Measure::own);
    const Layer* wait = heat.find(0, Measure::wait);
    if (own == nullptr || wait == nullptr)
        return Section::without("waits", heading,
                                own == nullptr
                                    ? "What ranks do by themselves and what they wait for is not known apart."
                                    : "No collective is timed, so that waiting for other ranks is not known.");
    if (std::all_of(wait->by_rank.begin(), wait->by_rank.end(), [](float ms) { return std::isnan(ms); }))
        return Section::without("waits", heading,
                                "No collective could be matched between ranks, so that waiting is not known.");
    return {
        "waits",
        heading,
        "A rank at the lower right works longer than the others and waits for nobody: the others wait for it. A cloud "
        "without such a dot is a job whose ranks are alike.",
        {},
        {draw_waits(view, *own, *wait)},
        "<p>The table of ranks under “Every rank, every step” has the numbers.</p>\n"};
}

}  // namespace cep::report
