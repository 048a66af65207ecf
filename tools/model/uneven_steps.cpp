// SPDX-License-Identifier: Apache-2.0
#include "model/uneven_steps.hpp"

#include <algorithm>

#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

/// Marks the steps that a rank left out between its first change and its last step.
void mark_left_out(const RunSeries& series, const std::vector<std::int64_t>& steps, std::vector<bool>& is_uneven) {
    const StrideChange& change = *series.stride;
    const std::vector<std::int64_t>& own = series.steps.all();
    if (own.empty() || !std::is_sorted(own.begin(), own.end())) return;
    const auto longest = static_cast<std::uint64_t>(change.longest);
    const std::int64_t start = series.run.start_step.value_or(0);
    auto next = std::upper_bound(own.begin(), own.end(), change.first_step);
    for (auto step = std::upper_bound(steps.begin(), steps.end(), change.first_step); step != steps.end(); ++step) {
        if (*step > own.back() && step_difference(own.back(), *step) >= longest) return;
        while (next != own.end() && *next < *step) ++next;
        if (next != own.end() && *next == *step) continue;
        // Each stride has the steps of the longest one: without such a step, something else is the reason.
        if (step_difference(start, *step) % longest != 0)
            is_uneven[static_cast<std::size_t>(step - steps.begin())] = true;
    }
}

}  // namespace

std::vector<bool> find_uneven_steps(const RankSeries& ranks, const std::vector<std::int64_t>& steps) {
    std::vector<bool> is_uneven;
    const RunSeries* last = nullptr;  // ranks usually have the same steps
    for (const auto& [rank, all_series] : ranks)
        for (const RunSeries& series : all_series) {
            if (!series.stride) continue;
            if (last != nullptr && last->steps == series.steps && *last->stride == *series.stride) continue;
            last = &series;
            is_uneven.resize(steps.size());
            mark_left_out(series, steps, is_uneven);
        }
    return is_uneven;
}

}  // namespace cep::tool
