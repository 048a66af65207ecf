// SPDX-License-Identifier: Apache-2.0
#include "stats/step_pattern.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

#include "stats/robust.hpp"

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

namespace {

constexpr std::size_t least_periods = 6;      // with fewer, chance may put a few large values into one remainder
constexpr std::int64_t longest_period = 256;  // batches that a loader has ready: of some workers a few each
constexpr double nearly_all_larger = 0.8;     // of the values with the remainder
constexpr double hardly_any_larger = 0.05;    // of the others

/// The remainder with the largest mean.
std::int64_t find_remainder(std::span<const std::int64_t> numbers, std::span<const double> values,
                            std::int64_t length) {
    std::vector<double> sums(static_cast<std::size_t>(length));
    std::vector<double> counts(sums.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        sums[static_cast<std::size_t>(numbers[i] % length)] += values[i];
        ++counts[static_cast<std::size_t>(numbers[i] % length)];
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : 0;
    return std::max_element(sums.begin(), sums.end()) - sums.begin();
}

double count_above(std::span<const double> values, double limit) {
    return static_cast<double>(
        std::count_if(values.begin(), values.end(), [limit](double value) { return value > limit; }));
}

double share_above(std::span<const double> values, double limit) {
    return count_above(values, limit) / static_cast<double>(values.size());
}

/// Whether enough values are so large; of those of a usual series, none are, and that is seen in no time.
bool may_have_period(std::span<const double> values, double least_excess) {
    constexpr double below_half = 0.2;  // a quantile of what is usual, whatever share of the values is larger
    const double limit = quantile_of(values, below_half) + least_excess / 2;
    return count_above(values, limit) >= nearly_all_larger * static_cast<double>(least_periods);
}

}  // namespace

std::optional<Period> find_period(std::span<const std::int64_t> numbers, std::span<const double> values,
                                  double least_excess) {
    if (!may_have_period(values, least_excess)) return std::nullopt;
    std::vector<double> at_remainder;
    std::vector<double> others;
    for (std::int64_t length = 2; length <= longest_period; ++length) {
        if (values.size() < least_periods * static_cast<std::size_t>(length)) break;
        const std::int64_t remainder = find_remainder(numbers, values, length);
        at_remainder.clear();
        others.clear();
        for (std::size_t i = 0; i < values.size(); ++i)
            (numbers[i] % length == remainder ? at_remainder : others).push_back(values[i]);
        if (at_remainder.size() < least_periods || others.empty()) continue;
        const Period period{length, remainder, median_of(others), median_of(at_remainder)};
        const double middle = (period.usual + period.larger) / 2;
        if (period.larger - period.usual >= least_excess && share_above(at_remainder, middle) >= nearly_all_larger &&
            share_above(others, middle) <= hardly_any_larger)
            return period;
    }
    return std::nullopt;
}

}  // namespace cep::tool
