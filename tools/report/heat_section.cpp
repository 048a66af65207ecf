// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/units.hpp"
#include "report/sections.hpp"
#include "show/document.hpp"
#include "show/fields.hpp"

namespace cep::report {
namespace {

using tool::format_duration_ms;

/// Three digits, as colours say no more.
std::string describe_ms(double ms) {
    const double power = std::pow(10, 2 - std::floor(std::log10(ms)));
    return tick_ms(std::round(ms * power) / power);
}

void draw_legend(Svg& svg, const Plot& plot, const Range& scale) {
    constexpr double length = 240;
    const double x = plot.right - length;
    svg.png(x, 8, length, 10, heat_legend_png());
    svg.group("heat-scale");
    svg.text("tick", {x, 30}, Anchor::start, "≤ " + describe_ms(scale.low));
    svg.text("tick", {x + length / 2, 30}, Anchor::middle, describe_ms(std::sqrt(scale.low * scale.high)));
    svg.text("tick", {x + length, 30}, Anchor::end, describe_ms(scale.high));
    svg.end_group();
    svg.rect("hatch", x - 70, 8, 14, 10);
    svg.text("tick", {x - 52, 17}, Anchor::start, "no row");
}

void draw_rows(Svg& svg, const Plot& plot, const JobView& view, const HeatMap& heat) {
    constexpr double least_pitch = 13;
    const double each = (plot.bottom - plot.top) / static_cast<double>(heat.rows.size());
    double free_from = 0;
    svg.group("heat-rows");
    for (std::size_t row = 0; row < heat.rows.size(); ++row) {
        const double y = plot.top + (static_cast<double>(row) + 0.5) * each + 4;
        if (y < free_from) continue;
        free_from = y + least_pitch;
        const bool is_blamed = std::count(view.blamed.begin(), view.blamed.end(), heat.rows[row].front()) > 0;
        svg.text(is_blamed ? "tick bad" : "tick", {plot.left - 6, y}, Anchor::end, view.label_of(heat.rows[row]));
    }
    svg.end_group();
}

Figure draw(const JobView& view, const HeatMap& heat) {
    const Layer& layer = heat.layers.front();
    const double height = std::clamp(static_cast<double>(heat.rows.size()) * 13, 96.0, 512.0);
    const Plot plot{.left = 84, .right = picture_width - 12, .top = 44, .bottom = 44 + height};
    const std::string what = describe(layer, view);
    Svg svg(
        "heat-map", plot, what + " by rank and step",
        fmt::format("{} ranks from top to bottom, slow ones first, {} from left to right. Colours go from {} and "
                    "less, which is neutral, to {}. The table below has the means of the ranks that stand out.",
                    tool::format_count(view.ranks.size()), name_steps(view.steps.first.front(), view.steps.last.back()),
                    format_duration_ms(layer.scale.low), format_duration_ms(layer.scale.high)));
    svg.group("heat-title");
    svg.text("title", {plot.left, 20}, Anchor::start, what);
    svg.end_group();
    draw_legend(svg, plot, layer.scale);
    svg.group("heat-plot", plot);
    svg.rect("hatch", plot.left, plot.top, plot.width(), height);
    svg.png(plot.left, plot.top, plot.width(), height, heat.png);
    svg.rect("frame", plot.left, plot.top, plot.width(), height);
    svg.end_group();
    svg.text("axis", {plot.left - 6, plot.top - 8}, Anchor::end, "rank");
    draw_rows(svg, plot, view, heat);
    svg.group("heat-columns");
    draw_column_numbers(svg, plot, view.steps.first);
    svg.end_group();
    draw_axis_name(svg, plot, "step");
    std::string caption;
    if (heat.rows.size() < view.ranks.size() || view.steps.size() < view.recorded_steps)
        caption = fmt::format("{} ranks and {} recorded steps in {} × {} cells: each shows the largest of its values.",
                              tool::format_count(view.ranks.size()), tool::format_count(view.recorded_steps),
                              heat.rows.size(), view.steps.size());
    return {svg.html(), caption};
}

tool::Table rank_table(const JobView& view, const HeatMap& heat) {
    using Rank = std::size_t;
    constexpr std::size_t most = 24;
    const std::size_t step = view.has_step ? 0 : view.phases.size();
    const auto known = [](double ms) { return std::isnan(ms) ? std::nullopt : std::optional(ms); };
    const auto mean = [&, step](Measure measure) {
        const Layer* const layer = heat.find(step, measure);
        return [=](Rank rank) { return layer == nullptr ? std::nullopt : known(layer->by_rank[rank]); };
    };
    const tool::Fields<Rank> fields = {
        {"rank", "rank", "number of the rank", [&](Rank rank) { return view.ranks[rank]; }},
        {"host", "host", "its host", [&](Rank rank) { return view.who[rank].host; }},
        {"role", "role", "ranks of one role do the same work", [&](Rank rank) { return view.roles[view.role[rank]]; }},
        {"own_ms", "own work", "mean over steps of its own work", mean(Measure::own), format_duration_ms},
        {"excess_ms", "beyond its role", "mean over steps of own work less the median of its role in the step",
         [&](Rank rank) { return known(view.slowness_ms[rank]); },
         [](double ms) { return fmt::format("{:+.2f} ms", ms); }},
        {"wait_ms", "waiting", "mean over steps of its waiting for others", mean(Measure::wait), format_duration_ms},
        {"step_ms", "step", "mean over steps of the whole step", mean(Measure::duration), format_duration_ms}};
    const std::size_t shown = std::min(most, heat.order.size());
    tool::Table table = tool::table_of(fields, std::span(heat.order).first(shown), "Ranks");
    table.set_rest("rank", "with less", view.ranks.size() - shown);
    return table;
}

}  // namespace

std::string describe(const Layer& layer, const JobView& view) {
    const PhaseView& phase = view.phases[layer.phase];
    const std::string of = phase.kind == schema::Kind::step ? "a whole step" : phase.name;
    const bool knows_own = !order_known(view.slowness_ms).empty();
    if (layer.measure == Measure::excess)
        return fmt::format("{} of {} beyond the median of {}", knows_own ? "Own work" : "Time", of,
                           view.blames_stage || view.roles.size() == 1 ? "all ranks" : "the rank's role");
    return fmt::format("{}, {}", of, measure_names[static_cast<std::size_t>(layer.measure)]);
}

Section heat_section(const Page& page) {
    const auto& [inputs, view, heat] = page;
    Section section{"heat", "Every rank, every step"};
    if (view.ranks.size() == 1)
        return section.without("One rank has no others to differ from; see “Phases over steps”.");
    if (heat.layers.empty() || view.steps.first.empty())
        return section.without(view.recorded_steps > 0 && view.steps.first.empty()
                                   ? "More durations were recorded than are kept; choose some with --steps or --ranks."
                                   : "No durations by rank and step are known, so there is no heat map.");
    section.look = fmt::format(
        "A coloured row {} a rank that works longer than {}{}. A coloured column is a step in which many differ.",
        heat.slow_rows > 0 ? "is" : "would be", view.blames_stage ? "those of other stages" : "the others of its role",
        heat.slow_rows > 0 ? "; slow ranks come first" : ": none does");
    if (!view.missing_ranks.empty())
        section.look += fmt::format(" No rows of {}.", tool::format_numbers("rank", view.missing_ranks));
    section.figures.push_back(draw(view, heat));
    section.details = rank_table(view, heat).html(0);
    return section;
}

}  // namespace cep::report
