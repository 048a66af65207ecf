// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/units.hpp"
#include "report/sections.hpp"
#include "report/svg.hpp"

namespace cep::report {
namespace {

using tool::format_duration_ms;

constexpr double first_row = 52;
constexpr double lane_height = 17;
constexpr double names_end = 212;  // where the spans begin
constexpr double ranks_end = names_end - 78;

std::string name_of_lane(std::size_t lane) {
    if (lane == host_lane) return "host";
    return lane == other_clock ? "other clock" : fmt::format("stream {}", lane - first_stream);
}

bool is_step(const JobView& view, const TimelineSpan& span) {
    return view.phases[span.phase].kind == schema::Kind::step;
}

/// Where the rows of a picture are: one for each rank, lane and depth that has spans.
class SpanRows {
  public:
    SpanRows(const JobView& view, const Timeline& timeline, std::size_t step) {
        for (const TimelineSpan& span : timeline.spans)
            if (span.step == step && !is_step(view, span)) y_.try_emplace({span.rank, span.lane, span.depth}, 0);
        std::size_t last_rank = timeline.ranks.size();
        double free_from = 0;  // below the two lines that name a rank
        for (auto& [key, y] : y_) {
            if (std::get<0>(key) != last_rank) {
                bottom_ = std::max(bottom_, free_from) + 12;
                free_from = bottom_ + 2 * lane_height;
            }
            last_rank = std::get<0>(key);
            y = bottom_;
            bottom_ += lane_height;
        }
        bottom_ = std::max(bottom_, free_from);
    }

    [[nodiscard]] double y(const TimelineSpan& span) const { return y_.at({span.rank, span.lane, span.depth}); }
    [[nodiscard]] double bottom() const { return bottom_; }

    /// Names of ranks and lanes, each once.
    void draw_names(Svg& svg, const JobView& view, const Timeline& timeline) const {
        std::size_t last_rank = timeline.ranks.size();
        std::size_t last_lane = 0;
        for (const auto& [key, y] : y_) {
            const auto& [rank, lane, depth] = key;
            if (rank != last_rank) {
                svg.text("label", {ranks_end, y + 12}, Anchor::end,
                         fmt::format("rank {}", view.ranks[timeline.ranks[rank].rank]));
                svg.text("tick", {ranks_end, y + 26}, Anchor::end, shorten(timeline.ranks[rank].why, 18));
            }
            if (rank != last_rank || lane != last_lane)
                svg.text("tick", {names_end - 8, y + 12}, Anchor::end, shorten(name_of_lane(lane), 9));
            last_rank = rank;
            last_lane = lane;
        }
    }

  private:
    std::map<std::tuple<std::size_t, std::size_t, unsigned>, double> y_;
    double bottom_ = first_row;
};

/// A line from the ends of a collective's parts, which end together, rank by rank.
void draw_joins(Svg& svg, const JobView& view, const Timeline& timeline, std::size_t step, const SpanRows& rows,
                const Axis& x) {
    if (timeline.each_from_zero) return;
    std::map<std::size_t, std::vector<Point>> ends;
    for (const TimelineSpan& span : timeline.spans)
        if (span.step == step && span.join > 0 && !is_step(view, span))
            ends[span.join].emplace_back(x(span.start_ms + span.duration_ms), rows.y(span) + lane_height / 2);
    if (ends.size() > 60) return;  // they would hide the spans
    for (auto& [join, points] : ends) {
        std::sort(points.begin(), points.end(), [](Point a, Point b) { return a.second < b.second; });
        svg.path("join", points);
    }
}

/// The colours of the phases that the step has, as far as there is room.
void draw_legend(Svg& svg, const JobView& view, const Timeline& timeline, std::size_t step) {
    std::set<std::size_t> phases;
    for (const TimelineSpan& span : timeline.spans)
        if (span.step == step && !is_step(view, span)) phases.insert(span.phase);
    double x = names_end;
    for (const std::size_t phase : phases) {
        const std::string name = shorten(view.phases[phase].name, 20);
        const double needed = 30 + 8 * static_cast<double>(name.size());
        if (x + needed > picture_width) return;
        svg.rect("part " + view.phases[phase].color(), x, 25, 12, 12);
        svg.text("tick", {x + 17, 35}, Anchor::start, name);
        x += needed;
    }
}

/// When the span began by the clock of its host, where that was set right.
std::string by_its_clock(const TimelineSpan& span) {
    return span.ahead_ms == 0
               ? ""
               : fmt::format(" ({} by the clock of its host)", format_duration_ms(span.start_ms + span.ahead_ms));
}

Figure draw(const JobView& view, const Timeline& timeline, std::size_t step) {
    const SpanRows rows(view, timeline, step);
    const TimelineStep& shown = timeline.steps[step];
    const std::string title = fmt::format("Step {}", tool::format_integer(shown.step));
    Svg svg(
        fmt::format("timeline-{}", step), picture_width, rows.bottom() + 40, title + " on a few ranks",
        "One row for each stream of each rank, time from left to right. Thin lines join the parts of one collective.");
    const Plot plot{.left = names_end, .right = picture_width - 16, .top = first_row - 4, .bottom = rows.bottom() + 4};
    const Axis x(0, shown.length_ms, plot.left, plot.right);
    svg.text("title", {plot.left, 14}, Anchor::start, title);
    draw_legend(svg, view, timeline, step);
    svg.group(fmt::format("ticks-{}", step));
    draw_values_below(svg, plot, x, 7, plot.bottom + 16, tick_ms);
    svg.end_group();
    svg.group(fmt::format("spans-{}", step), plot.box(), shown.length_ms);
    svg.rect("under", plot.left, plot.top, plot.width(), plot.bottom - plot.top);
    for (const TimelineSpan& span : timeline.spans) {
        if (span.step != step || is_step(view, span)) continue;
        const PhaseView& phase = view.phases[span.phase];
        const double from = x(span.start_ms);
        const double length = x(span.start_ms + span.duration_ms) - from;
        svg.rect("part " + phase.color(), from, rows.y(span), std::max(length, 1.0), lane_height - 3,
                 fmt::format("{}: {}, from {} on{}", phase.name, format_duration_ms(span.duration_ms),
                             format_duration_ms(span.start_ms), by_its_clock(span)));
        if (const auto room = static_cast<std::size_t>(length / 7.5); room >= 4)
            svg.text("on " + phase.color(), {from + 4, rows.y(span) + 11}, Anchor::start,
                     shorten(phase.name, room > phase.name.size() ? room : room - 1));
    }
    draw_joins(svg, view, timeline, step, rows, x);
    svg.end_group();
    rows.draw_names(svg, view, timeline);
    return {svg.finish(), "", true};
}

}  // namespace

Section timeline_section(const JobView& view, const Timeline& timeline) {
    const std::string heading = "Inside a step";
    if (!timeline.empty.empty()) return Section::without("timeline", heading, timeline.empty);
    Section section{"timeline", heading, "All spans of a step.", {}, {}, {}};
    if (!timeline.each_from_zero && std::any_of(timeline.spans.begin(), timeline.spans.end(),
                                                [](const TimelineSpan& span) { return span.join > 0; }))
        section.look =
            "What is joined is one collective: its parts end together, and the rank whose part is shortest came last.";
    for (std::size_t step = 0; step < timeline.steps.size(); ++step)
        if (timeline.steps[step].length_ms > 0) section.figures.push_back(draw(view, timeline, step));
    if (section.figures.empty()) return Section::without("timeline", heading, "None of the chosen steps has rows.");
    std::string& caption = section.figures.back().caption;
    if (timeline.each_from_zero)
        caption =
            "The clocks of the hosts differ by more than a step, so that each rank begins at 0 and nothing is joined. ";
    else if (timeline.clocks_apart_ms > 0)
        caption = fmt::format(
            "The clocks of the hosts are up to {} apart. They are set right by the ends of the collectives that hosts "
            "share, to within {} in 9 of 10. ",
            format_duration_ms(timeline.clocks_apart_ms), format_duration_ms(timeline.clock_error_ms));
    if (timeline.left_out > 0)
        caption += fmt::format("{} are left out, the shortest.", tool::format_plural(timeline.left_out, "span"));
    return section;
}

}  // namespace cep::report
