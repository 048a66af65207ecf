// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "compare/comparison.hpp"
#include "report/sections.hpp"
#include "show/document.hpp"

namespace cep::report {
namespace {

using compare::Change;
using compare::Outcome;

std::vector<const Change*> drawn_changes(const compare::Comparison& comparison) {
    constexpr std::size_t most = 16;
    std::vector<const Change*> changes;
    const auto add = [&](const Change& change) {
        if (change.change && changes.size() < most) changes.push_back(&change);
    };
    if (comparison.step) add(*comparison.step);
    for (const Change& phase : comparison.phases) add(phase);
    return changes;
}

void draw_change(Svg& svg, const Plot& plot, const Change& change, const Axis& x, double y) {
    const std::string style = change.outcome == Outcome::slower   ? "slower"
                              : change.outcome == Outcome::faster ? "faster"
                                                                  : "same";
    svg.text("label", {plot.left - 10, y + 4}, Anchor::end, shorten(change.name, 30));
    if (change.change_interval)
        svg.line("interval " + style, {x(x.clip(change.change_interval->low)), y},
                 {x(x.clip(change.change_interval->high)), y});
    svg.circle("outcome " + style, {x(x.clip(*change.change)), y}, 5);
    const std::string sign = change.outcome == Outcome::same ? " ~" : change.outcome == Outcome::undecided ? " ?" : "";
    svg.text("label", {plot.right + 12, y + 4}, Anchor::start, fmt::format("{:+.1f} %{}", 100 * *change.change, sign));
    svg.text("tick", {plot.right + 92, y + 4}, Anchor::start,
             tool::format_times_ms(change.a.mean_ms, change.b.mean_ms));
}

Figure draw(const std::vector<const Change*>& changes) {
    double most = 0.02;
    for (const Change* change : changes) {
        const auto widen = [&](double share) { most = std::max(most, std::min(1.0, std::abs(share))); };
        widen(1.1 * *change->change);
        if (change->change_interval)
            for (const double end : {change->change_interval->low, change->change_interval->high}) widen(end);
    }
    constexpr double row_height = 28;
    const Plot plot{.left = 250,
                    .right = picture_width - 250,
                    .top = 14,
                    .bottom = 30 + row_height * static_cast<double>(changes.size())};
    const Axis x(-most, most, plot.left, plot.right);
    Svg svg("compare-map", plot, "Change of each phase from A to B",
            "One row for the whole step and for each phase: a dot for its change in percent and a line for the 95 % "
            "confidence interval. Left of the middle is faster, right is slower.");
    const auto label = [](double tick) { return tick == 0 ? "no change" : fmt::format("{:+.3g} %", 100 * tick); };
    draw_values_below(svg, plot, x, 6, label, "zero");
    svg.text("axis", {plot.left, plot.bottom + 34}, Anchor::start, "← B is faster");
    svg.text("axis", {plot.right, plot.bottom + 34}, Anchor::end, "B is slower →");
    for (std::size_t i = 0; i < changes.size(); ++i)
        draw_change(svg, plot, *changes[i], x, 32 + row_height * static_cast<double>(i));
    return {svg.html(), "~ not significant; ? too few steps to test."};
}

}  // namespace

Section compare_section(const Page& page) {
    const compare::Comparison& comparison = *page.inputs.comparison;
    const tool::Document document = compare::make_document(comparison);
    Section section{"compare", "What changed from A to B", document.headline};
    section.details = (document.scope.empty() ? "" : tool::html_notes({document.scope})) +
                      tool::html_facts(document.facts) + tool::html_tables(document, 40) +
                      tool::html_notes(document.evidence) + tool::html_notes(document.notes);
    const std::vector<const Change*> changes = drawn_changes(comparison);
    if (!changes.empty()) section.figures.push_back(draw(changes));
    return section;
}

}  // namespace cep::report
