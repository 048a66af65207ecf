// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.hpp"
#include "report/sections.hpp"
#include "show/document.hpp"

namespace cep::report {
namespace {

using tool::format_duration_ms;

/// The middle of the column that has the step, or of the first one after it; nothing outside of all.
std::optional<double> x_of_step(const Plot& plot, const Bins& steps, std::int64_t step) {
    if (steps.size() == 0 || step < steps.first.front() || step > steps.last.back()) return std::nullopt;
    const auto found = std::lower_bound(steps.last.begin(), steps.last.end(), step);
    return plot.middle_of(static_cast<std::size_t>(found - steps.last.begin()), steps.size());
}

std::vector<Point> points_of(const Plot& plot, const std::vector<double>& values, const Axis& y) {
    std::vector<Point> points;
    for (std::size_t i = 0; i < values.size(); ++i)
        points.emplace_back(plot.middle_of(i, values.size()), y(y.clip(values[i])));
    return points;
}

void draw_events(Svg& svg, const Plot& plot, const Bins& steps, const tool::Job& job, const tool::Verdict& verdict) {
    for (const tool::Finding* const change : verdict.changes())
        if (const auto x = x_of_step(plot, steps, change->first_step))
            svg.line("change", {*x, plot.top}, {*x, plot.bottom}, tool::describe_change(*change, verdict.ranks));
    std::size_t drawn = 0;
    for (const auto& [name, mark] : job.marks)
        for (const auto& [first, last] : mark.steps.ranges()) {
            const auto x = x_of_step(plot, steps, first);
            if (!x || ++drawn > 200) continue;
            svg.line("mark", {*x, plot.top}, {*x, plot.top + 7}, fmt::format("{}, {}", name, name_steps(first, last)));
        }
}

void draw_band(Svg& svg, const Plot& plot, const Band& band, const PhaseView& phase) {
    constexpr double tallest = 3;  // times the median: what is longer in few steps touches the top
    constexpr double few = 0.05;
    const double median = nearest_quantile(band.p50_ms, 0.5);
    const double usual =
        std::max({nearest_quantile(band.max_ms, 1 - few), tallest * median, nearest_quantile(band.p50_ms, 1)});
    const double most = std::min(nearest_quantile(band.max_ms, 1), usual);
    const Axis y(0, most > 0 ? 1.08 * most : 1, plot.bottom, plot.top);
    draw_values_at_left(svg, plot, y, 3, tick_ms);
    svg.band("band " + phase.color(), points_of(plot, band.p90_ms, y), points_of(plot, band.p10_ms, y));
    svg.path("max", points_of(plot, band.max_ms, y));
    svg.path("median " + phase.color(), points_of(plot, band.p50_ms, y));
    svg.text("title", {plot.left, plot.top - 6}, Anchor::start,
             fmt::format("{}: median {}", shorten(phase.name, 60), format_duration_ms(median)));
}

/// What the pointer is told in each column.
void draw_values(Svg& svg, const Plot& plot, const Band& band, const Bins& steps, const JobView& view) {
    const double width = plot.width() / static_cast<double>(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        std::string values = "no row";
        if (!std::isnan(band.p50_ms[i]))
            values = fmt::format("median {}, 10th to 90th percentile {} to {}, slowest: rank {} with {}",
                                 format_duration_ms(band.p50_ms[i]), format_duration_ms(band.p10_ms[i]),
                                 format_duration_ms(band.p90_ms[i]), view.ranks[band.max_rank[i]],
                                 format_duration_ms(band.max_ms[i]));
        svg.rect("column", plot.left + width * static_cast<double>(i), plot.top, width, plot.bottom - plot.top,
                 fmt::format("{}: {}", name_steps(steps.first[i], steps.last[i]), values));
    }
}

Figure draw(const Page& page) {
    const auto& [inputs, view, heat] = page;
    constexpr double left = 76;
    const std::size_t count = std::min<std::size_t>(8, heat.bands.size());
    const Plot last = stacked_plot(left, count - 1);
    Svg svg(
        "bands-map", last, "Time of each phase over the steps",
        "For each phase the median rank as a line, the range from the tenth to the ninetieth percentile of the ranks "
        "as a band, and the slowest rank as a thin line. Dashed vertical lines are lasting changes, ticks at the top "
        "are marks.");
    for (std::size_t i = 0; i < count; ++i) {
        const Plot plot = stacked_plot(left, i);
        svg.group(fmt::format("band-{}", i));
        draw_band(svg, plot, heat.bands[i], view.phases[heat.bands[i].phase]);
        draw_values(svg, plot, heat.bands[i], heat.band_steps, view);
        draw_events(svg, plot, heat.band_steps, inputs.job, inputs.verdict);
        svg.end_group();
    }
    draw_column_numbers(svg, last, heat.band_steps.first);
    draw_axis_name(svg, last, "step");
    std::string caption;
    if (view.ranks.size() > 1)
        caption = "Line: median rank. Band: 10th to 90th percentile of the ranks. Thin line: the slowest rank.";
    if (!inputs.verdict.changes().empty()) caption += " Dashed: a lasting change of the job.";
    if (!inputs.job.marks.empty()) caption += " Ticks at the top: marks, such as checkpoints.";
    if (heat.bands.size() > count)
        caption +=
            fmt::format(" Not drawn: {} with less time.", tool::format_plural(heat.bands.size() - count, "phase"));
    return {svg.html(), caption};
}

std::vector<std::string> describe_events(const tool::Job& job, const tool::Verdict& verdict) {
    std::vector<std::string> lines;
    for (const tool::Finding* const change : verdict.changes())
        lines.push_back("Change: " + tool::describe_change(*change, verdict.ranks) +
                        (change->phase.empty() ? "" : ", most of it in " + change->phase));
    for (const auto& [name, mark] : job.marks)
        lines.push_back(fmt::format("Mark {}: {} rows, {}", name, tool::format_count(mark.count),
                                    tool::format_numbers("step", mark.steps.numbers(), 3)));
    return lines;
}

}  // namespace

Section bands_section(const Page& page) {
    const auto& [inputs, view, heat] = page;
    Section section{"bands", "Phases over steps"};
    if (heat.bands.empty() || view.steps.first.empty()) return section.without("No durations by step are known.");
    if (heat.band_steps.size() < 2) return section.without("There is only one step.");
    section.look = view.ranks.size() == 1
                       ? "A step up that stays is a change of the job."
                       : "A step up that stays is a change of the whole job; a thin line far above its band is one "
                         "slow rank; a wide band means that ranks differ.";
    section.figures = {draw(page)};
    section.details = tool::html_notes(describe_events(inputs.job, inputs.verdict));
    return section;
}

}  // namespace cep::report
