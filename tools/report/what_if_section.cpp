// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/units.hpp"
#include "report/sections.hpp"

namespace cep::report {
namespace {

using tool::Finding;
using tool::Findings;
using tool::format_change_ms;
using tool::format_duration_ms;
using tool::Replay;

/// A part of the waterfall from the replayed step to the ideal one.
struct Loss {
    std::string label;
    double ms = 0;  // of a step
};

/// They sum to the difference.
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

std::vector<Bar> waterfall_of(const Replay& replay) {
    std::vector<Bar> bars;
    const auto add = [&](const std::string& label, std::string style, double from_ms, double to_ms,
                         const std::string& value) {
        bars.push_back({label, "", {{std::move(style), from_ms, to_ms, label + ": " + value}}, value});
    };
    const std::string replayed = format_duration_ms(replay.replayed_ms);
    add("observed", "whole", 0, replay.observed_ms, format_duration_ms(replay.observed_ms));
    add("replayed as it was", "whole", 0, replay.replayed_ms,
        std::abs(replay.error) < 5e-4 ? replayed : fmt::format("{} ({:+.1f} %)", replayed, 100 * replay.error));
    double at = replay.replayed_ms;
    for (const Loss& loss : losses_of(replay)) {
        const double next = at - loss.ms;
        const bool is_shown = std::abs(loss.ms) >= 5e-4 * replay.replayed_ms;  // by the digits of its text
        add("without " + loss.label, loss.ms >= 0 ? "loss" : "gain", std::min(at, next), std::max(at, next),
            is_shown ? format_change_ms(-loss.ms) : "no difference");
        at = next;
    }
    add("ideal: all ranks even", "ideal", 0, replay.ideal_ms,
        fmt::format("{} ({:.1f} % less)", format_duration_ms(replay.ideal_ms),
                    100 * (1 - replay.ideal_ms / replay.replayed_ms)));
    return bars;
}

/// On the scale of the waterfall.
Figure draw_causes(const Findings& causes, const Replay& replay, double most_ms) {
    std::vector<Bar> bars;
    for (const Finding* const cause : std::span(causes).first(std::min<std::size_t>(8, causes.size()))) {
        const std::string name = cause->text.label + cause->in_phase();
        const double share = cause->cost_share.value_or(0);
        const std::string value =
            fmt::format("{} ({:.1f} %)", format_duration_ms(share * replay.observed_ms), 100 * share);
        bars.push_back({shorten(name, 60),
                        "",
                        {{"loss", 0, share * replay.observed_ms, fmt::format("{}: {}", name, value)}},
                        value});
    }
    return {"<h3>A step would be shorter by this much without …</h3>\n" +
                bars_html(bars, most_ms,
                          "One bar for each rank, host, stage or other cause: by how much the mean step would be "
                          "shorter without it."),
            "Each by itself: these do not add up, as one cause may hide another."};
}

/// "" where there is something to show.
std::string why_no_replay(const Replay& replay) {
    if (!replay.is_possible)
        return "The steps could not be replayed" + (replay.reason.empty() ? "." : ": " + replay.reason + ".");
    if (replay.matched == 0)
        return "No communication could be matched between ranks, so that no row says who waits for whom.";
    if (!replay.holds())
        return fmt::format(
            "The replay does not hold, so that it is not drawn: the replayed steps take {:.1f} % {} time than was "
            "observed, with {:.0f} % of the rows, and {:.0f} % of the communication matched between ranks.",
            100 * std::abs(replay.error), replay.error < 0 ? "less" : "more", 100 * replay.coverage,
            100 * replay.matched);
    return "";
}

}  // namespace

Section what_if_section(const Page& page) {
    const tool::Verdict& verdict = page.inputs.verdict;
    const Replay& replay = verdict.replay;
    Section section{"whatif", "What if all ranks were even?"};
    if (const std::string why = why_no_replay(replay); !why.empty()) return section.without(why);
    section.look = fmt::format(
        "{} were replayed with their dependencies. The red parts are what unevenness costs; the last bar is what is "
        "left.",
        tool::format_plural(replay.steps, "step"));
    const double most_ms = std::max(replay.observed_ms, replay.replayed_ms);
    section.figures.push_back(
        {bars_html(waterfall_of(replay), most_ms,
                   "A waterfall: the step as observed, as replayed, what each source of unevenness costs, and the step "
                   "that is left when all are gone."),
         "Mean of the replayed steps. The sources are evened out one after the other, so that their costs add up."});
    if (const Findings causes = verdict.causes(); !causes.empty())
        section.figures.push_back(draw_causes(causes, replay, most_ms));
    return section;
}

}  // namespace cep::report
