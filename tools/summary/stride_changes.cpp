// SPDX-License-Identifier: Apache-2.0
#include "summary/stride_changes.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/units.hpp"

namespace cep::tool {

namespace {

/// One for each attempt, whose rows may be in several files.
std::vector<StrideChange> changes_of(const std::vector<RunSeries>& all_series) {
    std::map<std::pair<std::string_view, std::int64_t>, StrideChange> changes;
    for (const RunSeries& series : all_series) {
        if (!series.stride) continue;
        const auto [found, is_new] = changes.try_emplace({series.run.run_id, series.run.attempt}, *series.stride);
        if (!is_new) found->second.add(*series.stride);
    }
    std::vector<StrideChange> all;
    for (const auto& [run, change] : changes) all.push_back(change);
    return all;
}

}  // namespace

std::vector<StrideChangeGroup> find_stride_changes(const Job& job) {
    std::map<std::tuple<std::int64_t, std::int64_t, double>, StrideChangeGroup> groups;
    for (const auto& [rank, all_series] : job.ranks)
        for (const StrideChange& change : changes_of(all_series)) {
            if (change.from == change.to) continue;
            StrideChangeGroup& group = groups[{change.from, change.to, change.max_percent}];
            group.from = change.from;
            group.to = change.to;
            group.max_percent = change.max_percent;
            group.steps.insert(change.step);
            group.ranks.insert(rank);
        }
    std::vector<StrideChangeGroup> found;
    for (auto& [strides, group] : groups) found.push_back(std::move(group));
    return found;
}

std::vector<std::string> describe_stride_changes(const std::vector<StrideChangeGroup>& groups, std::size_t all_ranks) {
    constexpr std::size_t max_shown = 4;
    constexpr std::size_t max_ranges = 3;
    std::vector<std::string> lines;
    for (const StrideChangeGroup& group : groups) {
        if (lines.size() == max_shown) {
            lines.push_back(fmt::format("… and {} more", format_count(groups.size() - max_shown)));
            break;
        }
        const std::vector<std::int64_t> steps = group.steps.numbers();
        const bool is_longer = group.to > group.from;  // else earlier changes are in none of the files
        std::string text = fmt::format("the stride was {} from {} to {} at ", is_longer ? "lengthened" : "shortened",
                                       format_integer(group.from), format_integer(group.to));
        text += steps.size() == 1
                    ? "step " + format_integer(steps.front())
                    : fmt::format("steps {} to {}", format_integer(steps.front()), format_integer(steps.back()));
        text +=
            fmt::format("{} {:g} %", is_longer ? " to keep below" : ", as cep cost far less than", group.max_percent);
        if (group.ranks.size() < all_ranks) text += " on " + format_numbers("rank", group.ranks.numbers(), max_ranges);
        lines.push_back(std::move(text));
    }
    return lines;
}

}  // namespace cep::tool
