// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.hpp"
#include "report/sections.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

using tool::format_bytes;

constexpr std::string_view memory_prefix = "memory.";
constexpr std::string_view capacity_counter = "memory.device_bytes";

/// Counters of each rank's device memory.
struct Memory {
    std::map<std::string_view, std::vector<float>> counters;  // by rank the largest value; NaN for none
    double capacity_bytes = 0;                                // of the smallest device; 0 if it is not known
};

/// Ranks that share a column: the one with the most.
std::vector<std::size_t> column_ranks(const std::vector<float>& by_rank) {
    constexpr std::size_t most_columns = 240;
    std::vector<std::size_t> ranks(std::min(most_columns, by_rank.size()), by_rank.size());
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        std::size_t& one = ranks[bin_of(rank, by_rank.size(), ranks.size())];
        if (std::isnan(by_rank[rank])) continue;
        if (one == by_rank.size() || by_rank[rank] > by_rank[one]) one = rank;
    }
    return ranks;
}

/// Where the device is full: as a line if that is near, else in words.
void draw_capacity(Svg& svg, const Plot& plot, const Axis& y, double left_bytes) {
    const bool is_near = y.clip(left_bytes) == left_bytes;
    const std::string what = "capacity of the device";
    if (is_near) svg.line("change", {plot.left, y(left_bytes)}, {plot.right, y(left_bytes)}, what);
    svg.text("tick bad", {plot.right, plot.top - 8}, Anchor::end,
             fmt::format("{}{}: {} above the median", is_near ? "" : "↑ ", what, format_bytes(left_bytes)));
}

void draw_counter(Svg& svg, const Plot& plot, const JobView& view, std::string_view name,
                  const std::vector<float>& by_rank, double capacity_bytes) {
    constexpr double flat = 0.02;  // of the median: what differs less looks flat
    constexpr double near = 3;     // times the largest difference: the capacity is in the picture
    const double median = tool::median_of(std::vector<double>(by_rank.begin(), by_rank.end()));
    double most = std::max(flat * median, 1.0);
    for (const float bytes : by_rank)
        if (!std::isnan(bytes)) most = std::max(most, std::abs(bytes - median));
    const double left_bytes = capacity_bytes - median;
    const double high = left_bytes > most && left_bytes <= near * most ? left_bytes : most;
    const Axis y(-most, 1.05 * high, plot.bottom, plot.top);
    svg.text("title", {plot.left, plot.top - 8}, Anchor::start,
             fmt::format("{}: median {}", shorten(name.substr(memory_prefix.size()), 40), format_bytes(median)));
    if (capacity_bytes > 0) draw_capacity(svg, plot, y, left_bytes);
    draw_values_at_left(svg, plot, y, 3, [](double bytes) {
        return bytes == 0 ? std::string("median") : (bytes > 0 ? "+" : "−") + tick_bytes(std::abs(bytes));
    });
    const std::vector<std::size_t> ranks = column_ranks(by_rank);
    const double each = plot.width() / static_cast<double>(ranks.size());
    for (std::size_t column = 0; column < ranks.size(); ++column) {
        if (ranks[column] == by_rank.size()) continue;
        const double difference = by_rank[ranks[column]] - median;
        const auto [top, bottom] = std::minmax({y(difference), y(0)});
        svg.rect("part " + color_of(schema::Kind::memory, name), plot.left + each * static_cast<double>(column), top,
                 each, std::max(bottom - top, 3.0),
                 fmt::format("{}: {}, {}{} from the median", view.name_rank(ranks[column]),
                             format_bytes(by_rank[ranks[column]]), difference < 0 ? "−" : "+",
                             format_bytes(std::abs(difference))));
    }
}

Figure draw(const JobView& view, const Memory& memory) {
    constexpr double left = 90;
    constexpr std::size_t most = 4;
    const std::size_t count = std::min(most, memory.counters.size());
    const Plot last = stacked_plot(left, count - 1);
    Svg svg("memory-map", last, "Most memory of each rank, as difference from the median",
            "Ranks from left to right, and by how much the largest value of each memory counter differs from that of "
            "the median rank.");
    auto counter = memory.counters.begin();
    for (std::size_t i = 0; i < count; ++i, ++counter)
        draw_counter(svg, stacked_plot(left, i), view, counter->first, counter->second, memory.capacity_bytes);
    draw_column_numbers(svg, last, view.ranks);
    draw_axis_name(svg, last, "rank");
    return {svg.html()};
}

Memory find_memory(const tool::Job& job, const JobView& view) {
    Memory memory;
    for (const auto& [rank, all_series] : job.ranks)
        for (const tool::RunSeries& series : all_series)
            for (const auto& [name, counter] : series.counters) {
                const std::size_t index = view.index_of(rank);
                const bool is_memory = name.starts_with(memory_prefix) && name.ends_with("_bytes");
                if (!is_memory || index == view.ranks.size()) continue;
                if (name == capacity_counter) {
                    double& least = memory.capacity_bytes;
                    if (counter.max > 0 && (least == 0 || counter.max < least)) least = counter.max;
                    continue;
                }
                auto& by_rank = memory.counters.try_emplace(name, view.ranks.size(), NAN).first->second;
                by_rank[index] = std::fmax(by_rank[index], static_cast<float>(counter.max));
            }
    return memory;
}

}  // namespace

Section memory_section(const Page& page) {
    const JobView& view = page.view;
    Section section{"memory", "Memory", "A rank above the others runs out of memory first."};
    const Memory memory = find_memory(page.inputs.job, view);
    if (memory.counters.empty())
        return section.without("No memory was counted: the rows have no counters such as memory.allocated_bytes.");
    if (view.ranks.size() == 1) return section.without("One rank has no others to differ from; see “What was read”.");
    section.figures.push_back(draw(view, memory));
    return section;
}

}  // namespace cep::report
