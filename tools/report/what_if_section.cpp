// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/units.hpp"
#include "report/plot.hpp"
#include "report/sections.hpp"
#include "show/html.hpp"
#include "verdict/causes.hpp"

namespace cep::report {
namespace {

using tool::Cell;
using tool::Finding;
using tool::Findings;
using tool::format_change_ms;
using tool::format_duration_ms;
using tool::Replay;

struct Bar {
    std::string label;
    std::string style;
    double from_ms = 0;
    double to_ms = 0;
    std::string value;
    std::string tip;
};

std::vector<Bar> waterfall_of(const Replay& replay) {
    std::vector<Bar> bars;
    const auto add = [&](const std::string& label, std::string style, double from_ms, double to_ms, std::string value) {
        bars.push_back({label, std::move(style), from_ms, to_ms, value, label + ": " + value});
    };
    const std::string replayed = format_duration_ms(replay.replayed_ms);
    add("observed", "whole", 0, replay.observed_ms, format_duration_ms(replay.observed_ms));
    add("replayed as it was", "whole", 0, replay.replayed_ms,
        std::abs(replay.error) < 5e-4 ? replayed : fmt::format("{} ({:+.1f} %)", replayed, 100 * replay.error));
    double at = replay.replayed_ms;
    for (const Loss& loss : losses_of(replay)) {
        const double next = at - loss.ms;
        add("without " + loss.label, loss.ms >= 0 ? "loss" : "gain", std::min(at, next), std::max(at, next),
            format_change_ms(-loss.ms));
        at = next;
    }
    add("ideal: all ranks even", "ideal", 0, replay.ideal_ms,
        fmt::format("{} ({:.1f} % less)", format_duration_ms(replay.ideal_ms),
                    100 * (1 - replay.ideal_ms / replay.replayed_ms)));
    return bars;
}

constexpr double bar_pitch = 30;

/// Room for bars one below the other.
Plot plot_of(const std::vector<Bar>& bars, double top) {
    return {.left = 250,
            .right = picture_width - 140,
            .top = top,
            .bottom = top + bar_pitch * static_cast<double>(bars.size())};
}

Axis axis_of(const std::vector<Bar>& bars, const Plot& plot) {
    double most = 0;
    for (const Bar& bar : bars) most = std::max(most, bar.to_ms);
    return {0, most, plot.left, plot.right};
}

void draw_bars(Svg& svg, const Plot& plot, const Axis& x, const std::vector<Bar>& bars) {
    double y = plot.top;
    for (const Bar& bar : bars) {
        svg.text("label", {plot.left - 10, y + 15}, Anchor::end, bar.label);
        svg.rect("part " + bar.style, x(bar.from_ms), y, std::max(1.0, x(bar.to_ms) - x(bar.from_ms)), 22, bar.tip);
        svg.text("tick", {x(bar.to_ms) + 6, y + 15}, Anchor::start, bar.value);
        y += bar_pitch;
    }
}

Figure draw_waterfall(const Replay& replay) {
    const std::vector<Bar> bars = waterfall_of(replay);
    Plot plot = plot_of(bars, 10);
    const Axis x = axis_of(bars, plot);
    Svg svg("whatif", picture_width, plot.bottom + 30, "From the observed step to the ideal one",
            "A waterfall: the step as observed, as replayed, what each source of unevenness costs, and the step that "
            "is left when all are gone.");
    Plot grid = plot;
    grid.top = 4;
    draw_values_below(svg, grid, x, 6, plot.bottom + 18, tick_ms);
    draw_bars(svg, plot, x, bars);
    return {svg.finish(), "Mean step. The sources are evened out one after the other, so that their costs add up."};
}

Figure draw_causes(const Findings& causes, const Replay& replay) {
    std::vector<Bar> bars;
    for (const Finding* const cause : std::span(causes).first(std::min<std::size_t>(8, causes.size()))) {
        const std::string name = tool::label_of(*cause) + (cause->phase.empty() ? "" : " in " + cause->phase);
        const double share = cause->cost_share.value_or(0);
        bars.push_back({shorten(name, 34), "loss", 0, share * replay.observed_ms,
                        fmt::format("{} ({:.1f} %)", format_duration_ms(share * replay.observed_ms), 100 * share),
                        name});
    }
    const Plot plot = plot_of(bars, 30);
    Svg svg(
        "causes", picture_width, plot.bottom + 10, "What each cause costs a step",
        "One bar for each rank, host, stage or other cause: by how much the mean step would be shorter without it.");
    svg.text("title", {plot.left, 16}, Anchor::start, "A step would be shorter by this much without …");
    // On the scale of the step, as in the waterfall.
    draw_bars(svg, plot, {0, std::max(replay.observed_ms, replay.replayed_ms), plot.left, plot.right}, bars);
    return {svg.finish(), "Each by itself: these do not add up, as one cause may hide another."};
}

tool::Table cause_table(const Findings& causes, const Replay& replay) {
    tool::Table table(
        {{"cause", "cause", tool::Align::left, "", ""},
         {"phase", "most of it in", tool::Align::left, "", ""},
         {"cost_ms", "costs a step", tool::Align::right, "ms", "by how much the mean step would be shorter"},
         {"share", "of the loss", tool::Align::right, "", "share of what an even job would gain"}},
        "Causes");
    for (const Finding* const cause : causes) {
        const double cost_ms = cause->cost_share.value_or(0) * replay.observed_ms;
        table.add({Cell::text_of(tool::label_of(*cause)), Cell::text_of(cause->phase),
                   Cell::shown(cost_ms, format_duration_ms(cost_ms)), Cell::percent(cause->loss_share)});
    }
    table.set_rest("cause", "that costs less");
    return table;
}

tool::Table waterfall_table(const Replay& replay) {
    tool::Table table({{"part", "mean step", tool::Align::left, "", ""}, {"ms", "time", tool::Align::right, "ms", ""}});
    for (const Bar& bar : waterfall_of(replay)) table.add({Cell::words(bar.label), Cell::words(bar.value)});
    return table;
}

}  // namespace

std::vector<Loss> losses_of(const Replay& replay) {
    const double all_ms = replay.replayed_ms - replay.ideal_ms;
    const tool::LossShares& shares = replay.shares;
    std::vector<Loss> losses = {{"uneven transfers", all_ms * shares.communication},
                                {"jitter, uneven micro-batches", all_ms * shares.within_ranks},
                                {"uneven ranks", all_ms * shares.ranks}};
    if (replay.stages > 1) losses.push_back({"uneven stages", all_ms * shares.stages});
    // Shares of a loss of nothing need not add up.
    double sum_ms = 0;
    for (const Loss& loss : losses) sum_ms += loss.ms;
    if (std::abs(all_ms - sum_ms) > 1e-3 * replay.replayed_ms) losses.push_back({"the rest", all_ms - sum_ms});
    return losses;
}

std::string why_no_replay(const Replay& replay) {
    if (!replay.is_possible)
        return "The steps could not be replayed" + (replay.reason.empty() ? "." : ": " + replay.reason + ".");
    if (!replay.is_usable())
        return fmt::format(
            "The replay does not hold, so nothing is said of causes: the replayed steps take {:.1f} % {} time than was "
            "observed, with {:.0f} % of the rows, and {:.0f} % of the communication matched between ranks.",
            100 * std::abs(replay.error), replay.error < 0 ? "less" : "more", 100 * replay.coverage,
            100 * replay.matched);
    return "";
}

Section what_if_section(const tool::Verdict& verdict) {
    const Replay& replay = verdict.replay;
    const std::string heading = "What if all ranks were even?";
    if (const std::string why = why_no_replay(replay); !why.empty()) return Section::without("whatif", heading, why);
    Section section{
        "whatif",
        heading,
        fmt::format("{} were replayed with their dependencies. The red parts are what unevenness costs; the last "
                    "bar is what is left.",
                    tool::format_plural(replay.steps, "step")),
        {},
        {draw_waterfall(replay)},
        waterfall_table(replay).html(0)};
    if (const Findings causes = verdict.causes(); !causes.empty()) {
        section.figures.push_back(draw_causes(causes, replay));
        section.details += cause_table(causes, replay).html(40);
    }
    return section;
}

}  // namespace cep::report
