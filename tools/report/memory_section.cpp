// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.hpp"
#include "report/memory.hpp"
#include "report/sections.hpp"
#include "report/svg.hpp"
#include "show/html.hpp"

namespace cep::report {
namespace {

using tool::Cell;
using tool::format_bytes;

constexpr double width = 960;
constexpr double left = 90;
constexpr double right = 20;
constexpr double bottom = 190;
constexpr std::size_t most_columns = 240;
constexpr std::size_t most_counters = 4;
constexpr std::string_view prefix = "memory.";

double largest(const std::vector<float>& values) {
    double most = 0;
    for (const float value : values) most = std::isnan(value) ? most : std::max<double>(most, value);
    return most;
}

/// The largest of each column; steps from one to the next.
std::vector<Point> outline(const std::vector<float>& by_rank, const Axis& y) {
    const std::size_t columns = std::min(most_columns, by_rank.size());
    std::vector<float> most(columns, NAN);
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        float& one = most[part_of(rank, by_rank.size(), columns)];
        one = std::fmax(one, by_rank[rank]);
    }
    std::vector<Point> points;
    const double each = (width - left - right) / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i) {
        const double x = left + each * static_cast<double>(i);
        points.emplace_back(x, y(most[i]));
        points.emplace_back(x + each, y(most[i]));
    }
    return points;
}

Figure draw(const JobView& view, const std::vector<CounterOfRanks>& counters) {
    double most = 0;
    for (const CounterOfRanks& counter : counters) most = std::max(most, largest(counter.by_rank));
    const Axis y(0, 1.08 * std::max(most, 1.0), bottom, 40);
    Svg svg("memory", width, bottom + 44, "Most memory of each rank",
            "Ranks from left to right, the largest value of each memory counter from bottom to top.");
    for (const double tick : y.ticks(4)) {
        svg.line("grid", {left, y(tick)}, {width - right, y(tick)});
        svg.text("tick", {left - 6, y(tick) + 4}, Anchor::end, tick_bytes(tick));
    }
    for (std::size_t i = 0; i < std::min(most_counters, counters.size()); ++i) {
        const std::string style = fmt::format("line-c{}", i);
        svg.path("median " + style, outline(counters[i].by_rank, y), counters[i].name);
        const double x = left + 220 * static_cast<double>(i);
        svg.line("median " + style, {x, 16}, {x + 18, 16});
        svg.text("tick", {x + 24, 20}, Anchor::start, shorten(counters[i].name.substr(prefix.size()), 26));
    }
    const std::size_t labels = std::min<std::size_t>(view.ranks.size(), 9);
    for (std::size_t i = 0; i < labels; ++i) {
        const std::size_t rank = labels == 1 ? 0 : i * (view.ranks.size() - 1) / (labels - 1);
        const double share = (static_cast<double>(rank) + 0.5) / static_cast<double>(view.ranks.size());
        svg.text("tick", {left + share * (width - left - right), bottom + 17}, Anchor::middle,
                 tool::format_integer(view.ranks[rank]));
    }
    svg.text("axis", {left + (width - left - right) / 2, bottom + 36}, Anchor::middle, "rank");
    return {svg.finish(), ""};
}

tool::Table memory_table(const tool::Summary& summary) {
    tool::Table table({{"counter", "counter", tool::Align::left, "", ""},
                       {"ranks", "ranks", tool::Align::right, "", "that have it"},
                       {"median", "median", tool::Align::right, "bytes", "over ranks of the largest value"},
                       {"max", "largest", tool::Align::right, "bytes", ""},
                       {"max_rank", "on rank", tool::Align::right, "", ""}},
                      "Memory");
    for (const tool::CounterSummary& counter : summary.counters) {
        if (!counter.name.starts_with(prefix) || !counter.name.ends_with("_bytes")) continue;
        table.add({Cell::text_of(counter.name), Cell::count(counter.max.ranks),
                   Cell::shown(counter.max.median, format_bytes(counter.max.median)),
                   Cell::shown(counter.max.max, format_bytes(counter.max.max)), Cell::integer(counter.max.max_rank)});
    }
    return table;
}

}  // namespace

std::vector<CounterOfRanks> find_memory(const tool::Job& job, const JobView& view) {
    std::map<std::string_view, std::vector<float>> counters;
    for (const auto& [rank, all_series] : job.ranks)
        for (const tool::RunSeries& series : all_series)
            for (const tool::CounterSeries& counter : series.counters) {
                if (!counter.name.starts_with(prefix) || !counter.name.ends_with("_bytes")) continue;
                const std::size_t index = view.index_of(rank);
                if (index == view.ranks.size()) continue;
                auto& by_rank = counters.try_emplace(counter.name, view.ranks.size(), NAN).first->second;
                by_rank[index] = std::fmax(by_rank[index], static_cast<float>(counter.max));
            }
    std::vector<CounterOfRanks> found;
    for (auto& [name, by_rank] : counters)
        if (found.size() < 2 * most_counters) found.push_back({std::string(name), std::move(by_rank)});
    return found;
}

Section memory_section(const JobView& view, const tool::Job& job, const tool::Summary& summary) {
    const std::string heading = "Memory";
    const std::vector<CounterOfRanks> counters = find_memory(job, view);
    if (counters.empty())
        return Section::without("memory", heading,
                                "No memory was counted: the rows have no counters such as memory.allocated_bytes.");
    return {"memory",
            heading,
            "A rank above the others runs out of memory first.",
            {},
            {draw(view, counters)},
            memory_table(summary).html(0)};
}

}  // namespace cep::report
