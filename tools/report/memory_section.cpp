// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.hpp"
#include "report/plot.hpp"
#include "report/sections.hpp"
#include "show/html.hpp"

namespace cep::report {
namespace {

using tool::Cell;
using tool::format_bytes;

constexpr std::size_t drawn_counters = 4;
constexpr std::string_view memory_prefix = "memory.";

bool is_memory(std::string_view counter) {
    return counter.starts_with(memory_prefix) && counter.ends_with("_bytes");
}

/// The largest of each column; steps from one to the next.
std::vector<Point> outline(const Plot& plot, const std::vector<float>& by_rank, const Axis& y) {
    const std::size_t columns = std::min<std::size_t>(240, by_rank.size());
    std::vector<float> most(columns, NAN);
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        float& one = most[part_of(rank, by_rank.size(), columns)];
        one = std::fmax(one, by_rank[rank]);
    }
    std::vector<Point> points;
    const double each = plot.width() / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i) {
        const double x = plot.left + each * static_cast<double>(i);
        points.emplace_back(x, y(most[i]));
        points.emplace_back(x + each, y(most[i]));
    }
    return points;
}

Figure draw(const JobView& view, const std::vector<MemoryCounter>& counters) {
    double most = 0;
    for (const MemoryCounter& counter : counters)
        for (const float bytes : counter.by_rank) most = std::fmax(most, bytes);
    const Plot plot{.left = 90, .right = picture_width - 20, .top = 40, .bottom = 190};
    const Axis y(0, 1.08 * std::max(most, 1.0), plot.bottom, plot.top);
    Svg svg("memory", picture_width, plot.bottom + 44, "Most memory of each rank",
            "Ranks from left to right, the largest value of each memory counter from bottom to top.");
    draw_values_at_left(svg, plot, y, 4, tick_bytes);
    for (std::size_t i = 0; i < std::min(drawn_counters, counters.size()); ++i) {
        const std::string style = fmt::format("line-c{}", i);
        svg.path("median " + style, outline(plot, counters[i].by_rank, y), counters[i].name);
        const double x = plot.left + 220 * static_cast<double>(i);
        svg.line("median " + style, {x, 16}, {x + 18, 16});
        svg.text("tick", {x + 24, 20}, Anchor::start, shorten(counters[i].name.substr(memory_prefix.size()), 26));
    }
    draw_column_numbers(svg, plot, plot.bottom + 17, view.ranks);
    svg.text("axis", {plot.middle(), plot.bottom + 36}, Anchor::middle, "rank");
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
        if (!is_memory(counter.name)) continue;
        table.add({Cell::text_of(counter.name), Cell::count(counter.max.ranks),
                   Cell::shown(counter.max.median, format_bytes(counter.max.median)),
                   Cell::shown(counter.max.max, format_bytes(counter.max.max)), Cell::integer(counter.max.max_rank)});
    }
    return table;
}

}  // namespace

std::vector<MemoryCounter> find_memory(const tool::Job& job, const JobView& view) {
    std::map<std::string_view, std::vector<float>> counters;
    for (const auto& [rank, all_series] : job.ranks)
        for (const tool::RunSeries& series : all_series)
            for (const tool::CounterSeries& counter : series.counters) {
                if (!is_memory(counter.name)) continue;
                const std::size_t index = view.index_of(rank);
                if (index == view.ranks.size()) continue;
                auto& by_rank = counters.try_emplace(counter.name, view.ranks.size(), NAN).first->second;
                by_rank[index] = std::fmax(by_rank[index], static_cast<float>(counter.max));
            }
    std::vector<MemoryCounter> found;
    for (auto& [name, by_rank] : counters)
        if (found.size() < 2 * drawn_counters) found.push_back({std::string(name), std::move(by_rank)});
    return found;
}

Section memory_section(const JobView& view, const std::vector<MemoryCounter>& counters, const tool::Summary& summary) {
    const std::string heading = "Memory";
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
