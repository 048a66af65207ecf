// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/units.hpp"
#include "report/heat_picture.hpp"
#include "report/plot.hpp"
#include "report/sections.hpp"
#include "show/html.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

using tool::Cell;
using tool::format_duration_ms;
using tool::format_integer;

constexpr std::size_t picture_rows = 256;
constexpr std::size_t picture_columns = 500;

std::string describe(const Layer& layer, const PhaseView& phase) {
    const std::string of = phase.kind == schema::Kind::step ? "a whole step" : phase.name;
    switch (layer.measure) {
        case Measure::own:
            return "Own work of " + of + ", without waiting";
        case Measure::wait:
            return "Waiting for other ranks in " + of;
        case Measure::relative:
            return "Work of " + of + ", relative to the median rank";
        default:
            return "Duration of " + of;
    }
}

/// Three digits, as colours say no more.
std::string describe_ms(double ms) {
    const double power = std::pow(10, 2 - std::floor(std::log10(ms)));
    return tick_ms(std::round(ms * power) / power);
}

std::string describe(const Scale& scale, double value) {
    const std::string text = describe_ms(value);
    return value == scale.low ? "≤ " + text : value == scale.high ? "≥ " + text : text;
}

void draw_legend(Svg& svg, const Plot& plot, const Scale& scale) {
    constexpr double length = 240;
    const double x = plot.right - length;
    static const std::string png = heat_legend_png();
    svg.png(x, 8, length, 10, png);
    const double middle = scale.is_log ? std::sqrt(scale.low * scale.high) : (scale.low + scale.high) / 2;
    svg.text("tick", {x, 30}, Anchor::start, scale.low == 0 ? "0" : describe(scale, scale.low));
    svg.text("tick", {x + length / 2, 30}, Anchor::middle, describe_ms(middle));
    svg.text("tick", {x + length, 30}, Anchor::end, describe(scale, scale.high));
    svg.rect("hatch", x + length + 16, 8, 14, 10);
    svg.text("tick", {x + length + 34, 17}, Anchor::start, "no row");
}

/// Marks at the right of the ranks that the verdict blames; neighbours have one.
void draw_blamed(Svg& svg, const Plot& plot, const JobView& view, double row_height) {
    constexpr std::size_t most_marks = 200;
    std::vector<std::size_t> blamed = view.blamed_ranks();
    std::sort(blamed.begin(), blamed.end());
    double free_from = 0;
    std::size_t marks = 0;
    for (std::size_t i = 0; i < blamed.size() && marks < most_marks; ++i, ++marks) {
        const std::size_t first = blamed[i];
        while (i + 1 < blamed.size() && blamed[i + 1] == blamed[i] + 1) ++i;
        const std::size_t last = blamed[i];
        const double from = plot.top + static_cast<double>(first) * row_height;
        const double to = plot.top + static_cast<double>(last + 1) * row_height;
        svg.rect("blame", plot.right + 3, from, 4, std::max(2.0, to - from));
        const double y = std::max((from + to) / 2 + 4, free_from);
        if (y > (from + to) / 2 + 30) continue;
        const std::string name = first == last ? fmt::format("rank {}", view.ranks[first])
                                               : fmt::format("ranks {}–{}", view.ranks[first], view.ranks[last]);
        svg.text("tick bad", {plot.right + 11, y}, Anchor::start, name);
        free_from = y + 13;
    }
}

Figure draw(const JobView& view, const Layer& layer) {
    const StepMatrix shown = reduce(layer.overview, picture_rows, picture_columns);
    const auto rows = static_cast<double>(view.ranks.size());
    const double height = std::clamp(rows * 12, 96.0, 360.0);
    const Plot plot{.left = 76, .right = picture_width - 116, .top = 44, .bottom = 44 + height};
    const std::string what = describe(layer, view.phases[layer.phase]);
    const std::string id =
        fmt::format("heat-{}-{}", layer.phase, measure_names[static_cast<std::size_t>(layer.measure)]);
    Svg svg(
        id, picture_width, plot.bottom + 40, what + " by rank and step",
        fmt::format("{} ranks from top to bottom, {} from left to right. Colours go from {} to {}. The table below "
                    "has the means of the ranks that stand out.",
                    tool::format_count(view.ranks.size()), name_steps(view.steps.first.front(), view.steps.last.back()),
                    format_duration_ms(layer.scale.low), format_duration_ms(layer.scale.high)));
    svg.text("title", {plot.left, 20}, Anchor::start, what);
    draw_legend(svg, plot, layer.scale);
    svg.rect("hatch", plot.left, plot.top, plot.width(), height);
    svg.png(plot.left, plot.top, plot.width(), height, heat_png(shown, layer.scale));
    svg.rect("frame", plot.left, plot.top, plot.width(), height);
    const double row_height = height / rows;
    const std::size_t every = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(14 / row_height)));
    const auto nice = static_cast<std::size_t>(Axis(0, rows, 0, height).ticks(12).at(1));
    const std::size_t stride = every == 1 ? 1 : std::max<std::size_t>({every, nice, 1});
    for (std::size_t rank = 0; rank < view.ranks.size(); rank += stride)
        svg.text("tick", {plot.left - 6, plot.top + (static_cast<double>(rank) + 0.5) * row_height + 4}, Anchor::end,
                 format_integer(view.ranks[rank]));
    svg.text("axis", {plot.left - 6, plot.top - 8}, Anchor::end, "rank");
    draw_column_numbers(svg, plot, plot.bottom + 16, view.steps.first);
    svg.text("axis", {plot.middle(), plot.bottom + 34}, Anchor::middle, "step");
    draw_blamed(svg, plot, view, row_height);
    std::string caption;
    if (shown.ranks() < view.ranks.size() || shown.steps() < view.recorded_steps)
        caption = fmt::format("{} ranks and {} recorded steps in {} × {} cells: each shows the largest of its values.",
                              tool::format_count(view.ranks.size()), tool::format_count(view.recorded_steps),
                              shown.ranks(), shown.steps());
    return {svg.finish(), caption};
}

Cell duration(const Layer* layer, std::size_t rank) {
    if (layer == nullptr || std::isnan(layer->by_rank[rank])) return Cell::none();
    return Cell::shown(static_cast<double>(layer->by_rank[rank]), format_duration_ms(layer->by_rank[rank]));
}

/// The ranks with the most work beyond their peers, the blamed ones first.
std::vector<std::size_t> order_ranks(const JobView& view, const HeatMap& heat) {
    std::vector<double> by_rank = view.slowness_ms;
    if (std::all_of(by_rank.begin(), by_rank.end(), [](double ms) { return std::isnan(ms); }))
        by_rank.assign(heat.layers.front().by_rank.begin(), heat.layers.front().by_rank.end());
    std::vector<std::size_t> order(view.ranks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<bool> is_blamed(view.ranks.size());
    for (const std::size_t rank : view.blamed_ranks()) is_blamed[rank] = true;
    const auto key = [&](std::size_t rank) { return std::isnan(by_rank[rank]) ? -INFINITY : by_rank[rank]; };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return is_blamed[a] != is_blamed[b] ? is_blamed[a] : key(a) > key(b);
    });
    return order;
}

tool::Table rank_table(const JobView& view, const HeatMap& heat) {
    tool::Table table({{"rank", "rank", tool::Align::right, "", "number of the rank"},
                       {"host", "host", tool::Align::left, "", "its host"},
                       {"role", "role", tool::Align::left, "", "ranks of one role do the same work"},
                       {"own_ms", "own work", tool::Align::right, "ms", "mean over steps of its own work"},
                       {"beyond_ms", "beyond its role", tool::Align::right, "ms",
                        "mean over steps of own work less the median of its role in the step"},
                       {"wait_ms", "waiting", tool::Align::right, "ms", "mean over steps of its waiting for others"},
                       {"step_ms", "step", tool::Align::right, "ms", "mean over steps of the whole step"}},
                      "Ranks");
    const std::size_t step = view.has_step ? 0 : view.phases.size();
    const Layer* own = heat.find(step, Measure::own);
    for (const std::size_t rank : order_ranks(view, heat)) {
        if (table.lines().size() == 24) break;
        const double beyond_ms = view.slowness_ms[rank];
        table.add({Cell::integer(view.ranks[rank]), Cell::text_of(view.hosts[view.host[rank]]),
                   Cell::text_of(view.roles[view.role[rank]]), duration(own, rank),
                   std::isnan(beyond_ms) ? Cell::none() : Cell::shown(beyond_ms, fmt::format("{:+.2f} ms", beyond_ms)),
                   duration(heat.find(step, Measure::wait), rank), duration(heat.find(step, Measure::duration), rank)});
    }
    table.set_rest("rank", "with less", view.ranks.size() - table.lines().size());
    return table;
}

/// The phase that the verdict blames; where it blames none and own work is not known, that in which one rank exceeds
/// the others most. nullptr for none.
const Layer* uneven_phase(const JobView& view, const HeatMap& heat) {
    if (!view.blamed.empty()) {
        const std::size_t phase = view.phase_of(view.blamed.front().phase);
        if (phase == 0 || phase == view.phases.size()) return nullptr;
        const Layer* own = heat.find(phase, Measure::own);
        return own != nullptr ? own : heat.find(phase, Measure::duration);
    }
    if (heat.find(0, Measure::own) != nullptr) return nullptr;
    const Layer* most_uneven = nullptr;
    double most = 1.1;  // the mean of one rank over that of the median rank: less is not uneven
    for (const Layer& layer : heat.layers) {
        if (layer.measure != Measure::duration || &layer == &heat.layers.front()) continue;
        const std::vector<double> by_rank(layer.by_rank.begin(), layer.by_rank.end());
        const std::vector<double> quantiles = tool::quantiles_of(by_rank, {0.5, 1});
        if (!(quantiles[1] > most * quantiles[0])) continue;
        most = quantiles[1] / quantiles[0];
        most_uneven = &layer;
    }
    return most_uneven;
}

}  // namespace

Section heat_section(const JobView& view, const HeatMap& heat) {
    const std::string heading = "Every rank, every step";
    if (heat.layers.empty() || view.steps.first.empty())
        return Section::without("heat", heading, "No durations by rank and step are known, so there is no heat map.");
    const Layer* own = heat.find(0, Measure::own);
    const Layer* wait = heat.find(0, Measure::wait);
    Section section{"heat", heading, {}, {}, {}, {}};
    section.look =
        "A bright row is a rank that works longer than the others; a bright column is a step that was long for all.";
    if (!view.missing_ranks.empty())
        section.look += fmt::format(" No rows of {}.", tool::format_numbers("rank", view.missing_ranks));
    if (own == nullptr) section.look += " Own work and waiting are not known apart here.";
    section.figures.push_back(draw(view, own != nullptr ? *own : heat.layers.front()));
    if (wait != nullptr) {
        section.figures.push_back(draw(view, *wait));
        if (!view.blamed.empty() && view.ranks.size() <= picture_rows)
            section.figures.back().caption += " The row of a slow rank is dark here: the others wait for it.";
    }
    const Layer* of_phase = uneven_phase(view, heat);
    if (of_phase != nullptr) section.figures.push_back(draw(view, *of_phase));
    section.details = rank_table(view, heat).html(0);
    return section;
}

}  // namespace cep::report
