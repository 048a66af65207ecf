// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "report/sections.hpp"
#include "show/document.hpp"
#include "show/fields.hpp"

namespace cep::report {
namespace {

using tool::format_duration_ms;
using tool::Ledger;
using tool::PieceTimes;
using tool::RankLedger;
using tool::TimeKind;

constexpr double least_segment = 0.005;  // of one of the bars; less is one segment with the rest

/// A piece has the same colour on every page: of the kind of work that it is.
constexpr std::array<std::string_view, tool::piece_count> styles = {
    "k-compute v2", "k-comm v2",  "wait",       "bubble",     "k-memory v2", "k-memory v3", "k-data v2",
    "k-host v2",    "k-other v2", "k-other v5", "k-other v4", "k-other v3",  "k-host v3",   "rest",
    "k-other v6",   "rest",       "k-other v7", "k-other v1", "rest"};

/// All of some ranks' time, divided by their steps.
struct Share {
    std::string label;
    std::string note;
    PieceTimes pieces;
    double steps = 0;

    [[nodiscard]] double ms(TimeKind piece) const { return static_cast<double>(pieces[piece]) * 1e-6 / steps; }
    [[nodiscard]] double step_ms() const { return static_cast<double>(pieces.sum_ns()) * 1e-6 / steps; }
};

/// The job, and the ranks with the most, the median and the least work of their own.
std::vector<Share> find_shares(const JobView& view, const Ledger& ledger) {
    std::vector<Share> shares;
    double steps = 0;
    for (const RankLedger& rank : ledger.ranks) steps += static_cast<double>(rank.steps);
    if (steps == 0 || ledger.empty()) return shares;
    shares.push_back({"the job", ledger.ranks.size() > 1 ? "mean over all ranks" : "", ledger.pieces, steps});
    const std::vector<std::size_t> order = order_known(view.slowness_ms);
    const auto add = [&](std::string_view note, std::size_t index) {
        const RankLedger* const rank = ledger.find_rank(view.ranks[index]);
        if (rank == nullptr || rank->steps == 0 || rank->elapsed_ns == 0) return;
        shares.push_back({view.name_rank(index), std::string(note), rank->pieces, static_cast<double>(rank->steps)});
    };
    if (order.size() < 2) return shares;
    add("most own work", order.back());
    if (order.size() > 2) add("median own work", order[order.size() / 2]);
    add("least own work", order.front());
    return shares;
}

/// A piece, or the sum of those that are small in all bars.
struct Segment {
    std::string name;
    std::string style;
    std::vector<double> ms;  // by bar
};

std::vector<Segment> find_segments(const std::vector<Share>& shares) {
    std::vector<Segment> segments;
    Segment rest{"all the rest", "others", std::vector<double>(shares.size())};
    for (std::size_t i = 0; i < tool::piece_count; ++i) {
        const auto piece = static_cast<TimeKind>(i);
        const bool is_large = std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
            return share.ms(piece) > least_segment * share.step_ms();
        });
        Segment segment{std::string(tool::facts_of(piece).meaning), std::string(styles[i]), {}};
        for (std::size_t bar = 0; bar < shares.size(); ++bar) {
            segment.ms.push_back(shares[bar].ms(piece));
            if (!is_large) rest.ms[bar] += segment.ms.back();
        }
        if (is_large) segments.push_back(std::move(segment));
    }
    segments.push_back(std::move(rest));
    return segments;
}

std::string with_percent(double ms, double of_ms) {
    return fmt::format("{} ({:.1f} %)", format_duration_ms(ms), of_ms > 0 ? 100 * ms / of_ms : 0);
}

Figure draw(const std::vector<Share>& shares, const std::vector<Segment>& segments) {
    std::string key = "<p class=\"key\">";  // what colours mean
    for (const Segment& segment : segments)
        key += fmt::format("<span><svg><rect class=\"part {}\" width=\"100%\" height=\"100%\"/></svg>{}</span> ",
                           segment.style, tool::html_text(segment.name));
    std::vector<Bar> bars;
    double most_ms = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const double step_ms = shares[i].step_ms();
        most_ms = std::max(most_ms, step_ms);
        bars.push_back({shares[i].label, shares[i].note, {}, format_duration_ms(step_ms)});
        double at = 0;
        for (const Segment& segment : segments) {
            if (!(segment.ms[i] > 0)) continue;
            bars.back().segments.push_back({segment.style, at, at + segment.ms[i],
                                            segment.name + ": " + with_percent(segment.ms[i], step_ms),
                                            format_duration_ms(segment.ms[i])});
            at += segment.ms[i];
        }
    }
    return {key + "</p>\n" +
            bars_html(bars, most_ms,
                      "A bar for the job and for each of a few ranks: where the time of a step went. The table below "
                      "has the numbers.")};
}

tool::Table segment_table(const std::vector<Share>& shares, std::vector<Segment> segments) {
    segments.push_back({"all", "", {}});
    for (const Share& share : shares) segments.back().ms.push_back(share.step_ms());
    tool::Fields<Segment> fields = {{"part", "where the time of a step went", "", &Segment::name}};
    for (std::size_t i = 0; i < shares.size(); ++i)
        fields.emplace_back(
            "part_ms", fmt::format("{}: {}", shares[i].label, shares[i].note), "",
            [i](const Segment& segment) { return segment.ms[i]; },
            [step_ms = shares[i].step_ms()](const Segment& segment, double ms) {
                return segment.style.empty() ? format_duration_ms(ms) : with_percent(ms, step_ms);
            });
    return tool::table_of(fields, segments);
}

}  // namespace

Section breakdown_section(const Page& page) {
    Section section{"breakdown", "Where the time went"};
    const std::vector<Share> shares = find_shares(page.view, page.inputs.verdict.ledger);
    if (shares.empty()) return section.without("No rank has a step whose time is known.");
    const std::vector<Segment> segments = find_segments(shares);
    section.look = "All of the time, divided by the steps";
    section.look +=
        shares.size() == 1 ? "." : ": of the job, and of a few ranks. While one works longer, the others wait.";
    section.figures.push_back(draw(shares, segments));
    section.details = segment_table(shares, segments).html(0);
    return section;
}

}  // namespace cep::report
