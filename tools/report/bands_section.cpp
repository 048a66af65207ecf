// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "report/sections.hpp"
#include "report/svg.hpp"
#include "show/html.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

using tool::Cell;
using tool::format_duration_ms;
using tool::format_integer;

constexpr std::size_t most_pictures = 8;
constexpr std::size_t most_points = 250;
constexpr std::size_t most_changes_named = 3;
constexpr double width = 960;
constexpr double left = 76;
constexpr double right = 20;
constexpr double height = 96;
constexpr double gap = 34;
constexpr double tallest = 3;  // times the median: what is longer touches the top

double largest(const std::vector<double>& values) {
    double most = 0;
    for (const double value : values) most = std::isnan(value) ? most : std::max(most, value);
    return most;
}

/// Where the columns of a picture are.
class Columns {
  public:
    explicit Columns(const Bins& steps) : steps_(steps) {}

    [[nodiscard]] double x(std::size_t column) const {
        const double share = (static_cast<double>(column) + 0.5) / static_cast<double>(steps_.size());
        return left + share * (width - left - right);
    }
    [[nodiscard]] double x_of_step(std::int64_t step) const {
        const auto found = std::lower_bound(steps_.last.begin(), steps_.last.end(), step);
        return x(std::min(static_cast<std::size_t>(found - steps_.last.begin()), steps_.size() - 1));
    }
    [[nodiscard]] std::size_t size() const { return steps_.size(); }
    [[nodiscard]] std::int64_t step(std::size_t column) const { return steps_.first[column]; }
    [[nodiscard]] bool contains(std::int64_t step) const {
        return steps_.size() > 0 && step >= steps_.first.front() && step <= steps_.last.back();
    }

  private:
    const Bins& steps_;
};

/// Every so many columns, and of those left out the largest maximum.
std::vector<Point> points_of(const std::vector<double>& values, const Columns& columns, const Axis& y, bool keeps_max) {
    const std::size_t every = std::max<std::size_t>(1, (values.size() + most_points - 1) / most_points);
    std::vector<Point> points;
    for (std::size_t first = 0; first < values.size(); first += every) {
        std::vector<double> some;
        for (std::size_t i = first; i < std::min(first + every, values.size()); ++i)
            if (!std::isnan(values[i])) some.push_back(values[i]);
        const double value = some.empty() ? NAN : keeps_max ? largest(some) : tool::median_of(some);
        points.emplace_back(columns.x(first + (std::min(first + every, values.size()) - first) / 2), y(y.clip(value)));
    }
    return points;
}

void draw_events(Svg& svg, const Columns& columns, double top, const tool::Job& job, const tool::Verdict& verdict) {
    for (const tool::ChangeFact& change : verdict.changes)
        if (columns.contains(change.step)) {
            const double x = columns.x_of_step(change.step);
            svg.line("change", {x, top}, {x, top + height},
                     fmt::format("from step {} on: {} instead of {}", format_integer(change.step),
                                 format_duration_ms(change.after_ms), format_duration_ms(change.before_ms)));
        }
    std::size_t drawn = 0;
    for (const auto& [name, mark] : job.marks)
        for (const auto& [first, last] : mark.steps.ranges()) {
            if (!columns.contains(first) || ++drawn > 200) continue;
            const double x = columns.x_of_step(first);
            svg.line("mark", {x, top}, {x, top + 7}, fmt::format("{}, {}", name, name_steps(first, last)));
        }
}

void draw_band(Svg& svg, const Band& band, const PhaseView& phase, const Columns& columns, double top) {
    const double median = tool::median_of(band.p50_ms);
    const double most = std::min(largest(band.max_ms), tallest * std::max(median, largest(band.p50_ms) / tallest));
    const Axis y(0, most > 0 ? 1.08 * most : 1, top + height, top);
    for (const double tick : y.ticks(3)) {
        svg.line("grid", {left, y(tick)}, {width - right, y(tick)});
        svg.text("tick", {left - 6, y(tick) + 4}, Anchor::end, tick_ms(tick));
    }
    const std::string style = phase.kind == schema::Kind::step ? "step" : fmt::format("c{}", phase.color);
    svg.band("band " + style, points_of(band.p90_ms, columns, y, false), points_of(band.p10_ms, columns, y, false));
    svg.path("max", points_of(band.max_ms, columns, y, true));
    svg.path("median line-" + style, points_of(band.p50_ms, columns, y, false));
    svg.text("title", {left, top - 6}, Anchor::start,
             fmt::format("{}: median {}", shorten(phase.name, 60), format_duration_ms(median)));
}

Figure draw(const JobView& view, const HeatMap& heat, const tool::Job& job, const tool::Verdict& verdict) {
    const std::size_t count = std::min(most_pictures, heat.bands.size());
    const Columns columns(heat.band_steps);
    const double whole = 30 + static_cast<double>(count) * (height + gap) + 24;
    Svg svg(
        "bands", width, whole, "Time of each phase over the steps",
        "For each phase the median rank as a line, the range from the tenth to the ninetieth percentile of the ranks "
        "as "
        "a band, and the slowest rank as a thin line. Dashed vertical lines are lasting changes, ticks at the top are "
        "marks.");
    for (std::size_t i = 0; i < count; ++i) {
        const double top = 30 + static_cast<double>(i) * (height + gap);
        draw_band(svg, heat.bands[i], view.phases[heat.bands[i].phase], columns, top);
        draw_events(svg, columns, top, job, verdict);
    }
    const std::size_t labels = std::min<std::size_t>(columns.size(), 9);
    for (std::size_t i = 0; i < labels; ++i) {
        const std::size_t column = labels == 1 ? 0 : i * (columns.size() - 1) / (labels - 1);
        svg.text("tick", {columns.x(column), whole - 30}, Anchor::middle, format_integer(columns.step(column)));
    }
    svg.text("axis", {left + (width - left - right) / 2, whole - 10}, Anchor::middle, "step");
    std::string caption = "Line: median rank. Band: 10th to 90th percentile of the ranks. Thin line: the slowest rank.";
    if (!verdict.changes.empty()) caption += " Dashed: a lasting change of the job.";
    if (!job.marks.empty()) caption += " Ticks at the top: marks, such as checkpoints.";
    if (heat.bands.size() > count)
        caption += fmt::format(" Only in the table: {} with less time.",
                               tool::format_plural(heat.bands.size() - count, "phase"));
    return {svg.finish(), caption};
}

tool::Table band_table(const JobView& view, const HeatMap& heat) {
    tool::Table table({{"phase", "phase", tool::Align::left, "", ""},
                       {"p10_ms", "p10", tool::Align::right, "ms", "10th percentile over ranks, median over steps"},
                       {"p50_ms", "median", tool::Align::right, "ms", "median over ranks, median over steps"},
                       {"p90_ms", "p90", tool::Align::right, "ms", "90th percentile over ranks, median over steps"},
                       {"max_ms", "longest", tool::Align::right, "ms", "longest of any rank and step"},
                       {"rank", "on", tool::Align::left, "", "where that was"}},
                      "Phases over steps");
    for (const Band& band : heat.bands) {
        const auto found = std::max_element(band.max_ms.begin(), band.max_ms.end(), [](double a, double b) {
            return (std::isnan(a) ? -1 : a) < (std::isnan(b) ? -1 : b);
        });
        if (found == band.max_ms.end() || std::isnan(*found)) continue;
        const auto column = static_cast<std::size_t>(found - band.max_ms.begin());
        const auto typical = [](const std::vector<double>& ms) {
            return Cell::words(format_duration_ms(tool::median_of(ms)));
        };
        table.add({Cell::text_of(view.phases[band.phase].name), typical(band.p10_ms), typical(band.p50_ms),
                   typical(band.p90_ms), Cell::words(format_duration_ms(*found)),
                   Cell::words(fmt::format("{}, {}", view.name_rank(band.max_rank[column]),
                                           name_steps(heat.band_steps.first[column], heat.band_steps.last[column])))});
    }
    return table;
}

std::vector<std::string> describe_events(const tool::Job& job, const tool::Verdict& verdict) {
    std::vector<std::string> lines;
    for (const tool::ChangeFact& change : verdict.changes)
        lines.push_back(fmt::format("Change at step {}: {} → {}{}", format_integer(change.step),
                                    format_duration_ms(change.before_ms), format_duration_ms(change.after_ms),
                                    change.phase.empty() ? "" : ", most of it in " + change.phase));
    for (const auto& [name, mark] : job.marks)
        lines.push_back(fmt::format("Mark {}: {} rows, {}", name, tool::format_count(mark.count),
                                    tool::format_numbers("step", mark.steps.numbers(), most_changes_named)));
    return lines;
}

}  // namespace

Section bands_section(const JobView& view, const HeatMap& heat, const tool::Job& job, const tool::Verdict& verdict) {
    const std::string heading = "Phases over steps";
    if (heat.bands.empty() || view.steps.first.empty())
        return Section::without("bands", heading, "No durations by step are known.");
    return {"bands",
            heading,
            "A step up that stays is a change of the whole job; a thin line far above its band is one slow rank; a "
            "wide band "
            "means that ranks differ.",
            {},
            {draw(view, heat, job, verdict)},
            band_table(view, heat).html(0) + tool::html_notes(describe_events(job, verdict))};
}

}  // namespace cep::report
