// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "compare/compare_document.hpp"
#include "report/sections.hpp"
#include "report/svg.hpp"
#include "show/html.hpp"

namespace cep::report {
namespace {

using compare::Change;
using compare::Outcome;

constexpr double width = 960;
constexpr double left = 250;
constexpr double right = 250;
constexpr double row_height = 28;
constexpr std::size_t most_phases = 16;
constexpr std::size_t table_lines = 40;

std::vector<const Change*> drawn_changes(const compare::Comparison& comparison) {
    std::vector<const Change*> changes;
    const auto add = [&](const Change& change) {
        if (change.change && changes.size() < most_phases) changes.push_back(&change);
    };
    if (comparison.step) add(*comparison.step);
    for (const Change& phase : comparison.phases) add(phase);
    return changes;
}

std::string_view style_of(Outcome outcome) {
    return outcome == Outcome::slower ? "slower" : outcome == Outcome::faster ? "faster" : "same";
}

void draw_change(Svg& svg, const Change& change, const Axis& x, double y) {
    const std::string style(style_of(change.outcome));
    svg.text("label", {left - 10, y + 4}, Anchor::end, shorten(change.name, 30));
    if (change.change_interval)
        svg.line("interval " + style, {x(x.clip(change.change_interval->low)), y},
                 {x(x.clip(change.change_interval->high)), y});
    svg.circle("dot " + style, {x(x.clip(*change.change)), y}, 5);
    const std::string doubt = change.outcome == Outcome::same ? " ~" : change.outcome == Outcome::undecided ? " ?" : "";
    svg.text("label", {width - right + 12, y + 4}, Anchor::start,
             fmt::format("{:+.1f} %{}", 100 * *change.change, doubt));
    svg.text("tick", {width - right + 92, y + 4}, Anchor::start,
             fmt::format("{} → {}", tool::format_duration_ms(change.a.median_ms),
                         tool::format_duration_ms(change.b.median_ms)));
}

Figure draw(const std::vector<const Change*>& changes) {
    double most = 0.02;
    for (const Change* change : changes) {
        most = std::max(most, std::min(1.0, std::abs(*change->change) * 1.1));
        if (change->change_interval)
            most = std::max({most, std::min(1.0, std::abs(change->change_interval->low)),
                             std::min(1.0, std::abs(change->change_interval->high))});
    }
    const Axis x(-most, most, left, width - right);
    const double bottom = 30 + row_height * static_cast<double>(changes.size());
    Svg svg("compare", width, bottom + 40, "Change of each phase from A to B",
            "One row for the whole step and for each phase: a dot for its change in percent and a line for the 95 % "
            "confidence interval. Left of the middle is faster, right is slower.");
    for (const double tick : x.ticks(6)) {
        svg.line(tick == 0 ? "zero" : "grid", {x(tick), 14}, {x(tick), bottom});
        svg.text("tick", {x(tick), bottom + 16}, Anchor::middle,
                 tick == 0 ? "no change" : fmt::format("{:+.3g} %", 100 * tick));
    }
    svg.text("axis", {left, bottom + 34}, Anchor::start, "← B is faster");
    svg.text("axis", {width - right, bottom + 34}, Anchor::end, "B is slower →");
    for (std::size_t i = 0; i < changes.size(); ++i)
        draw_change(svg, *changes[i], x, 32 + row_height * static_cast<double>(i));
    return {svg.finish(), "~ not significant; ? too few blocks of steps to test."};
}

}  // namespace

Section compare_section(const compare::Comparison& comparison) {
    const tool::Document document = compare::make_document(comparison);
    const std::vector<const Change*> changes = drawn_changes(comparison);
    Section section{"compare",
                    "What changed from A to B",
                    document.headline,
                    {},
                    {},
                    tool::html_facts(document.facts) + tool::html_tables(document, table_lines) +
                        tool::html_notes(document.evidence) + tool::html_notes(document.notes)};
    if (!changes.empty()) section.figures.push_back(draw(changes));
    return section;
}

}  // namespace cep::report
