// SPDX-License-Identifier: Apache-2.0
#include "stats/step_pattern.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace cep::tool {

std::optional<std::int64_t> infer_stride(std::span<const std::int64_t> steps) {
    if (steps.size() < 3) return std::nullopt;
    std::map<std::uint64_t, std::size_t> counts;
    for (auto step = steps.begin(); std::next(step) != steps.end(); ++step)
        ++counts[step_difference(*step, *std::next(step))];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const bool common = 2 * most->second >= steps.size() - 1;
    return common && most->first <= INT64_MAX ? std::optional(static_cast<std::int64_t>(most->first)) : std::nullopt;
}

MissingSteps find_missing_steps(std::span<const std::int64_t> steps, std::int64_t stride) {
    MissingSteps missing;
    if (stride <= 0 || steps.empty()) return missing;
    const auto stride_steps = static_cast<std::uint64_t>(stride);
    for (auto step = steps.begin(); std::next(step) != steps.end(); ++step) {
        const std::uint64_t between = step_difference(*step, *std::next(step));
        if (between % stride_steps != 0) continue;
        const std::uint64_t count = between / stride_steps - 1;
        missing.count += count;
        for (std::uint64_t i = 1; i <= count && missing.listed.size() < MissingSteps::max_listed; ++i)
            missing.listed.push_back(*step + static_cast<std::int64_t>(i * stride_steps));
    }
    return missing;
}

}  // namespace cep::tool
