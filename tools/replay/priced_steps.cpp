// SPDX-License-Identifier: Apache-2.0
#include "replay/priced_steps.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/hash.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::uint64_t most_rows = 100'000;
constexpr std::size_t few_steps = 500;  // of fewer, the mean says too little
constexpr std::size_t run_length = 4;
constexpr double much_longer = 2;       // than the median
constexpr std::size_t one_long_of = 8;  // runs that are priced: more would change what is typical of them

/// Steps that follow each other: what one loses may fall into the next.
struct StepRun {
    std::span<const std::uint32_t> steps;
    double mean_ms = 0;
    double longest_ms = 0;
};

/// In the order of their lengths.
std::vector<StepRun> find_runs(std::span<const std::uint32_t> steps, const std::vector<double>& lengths_ms) {
    std::vector<StepRun> runs;
    for (std::size_t first = 0; first < steps.size(); first += run_length) {
        StepRun& run = runs.emplace_back();
        run.steps = steps.subspan(first, std::min(run_length, steps.size() - first));
        for (const std::uint32_t step : run.steps) {
            run.mean_ms += lengths_ms[step] / static_cast<double>(run.steps.size());
            run.longest_ms = std::max(run.longest_ms, lengths_ms[step]);
        }
    }
    std::stable_sort(runs.begin(), runs.end(),
                     [](const StepRun& a, const StepRun& b) { return a.mean_ms < b.mean_ms; });
    return runs;
}

/// Takes the longest of those that are long out of the runs.
std::vector<StepRun> take_long_runs(std::vector<StepRun>& runs, double limit_ms, std::size_t most) {
    std::vector<StepRun> taken;
    for (auto run = runs.end(); run != runs.begin() && taken.size() < most;)
        if ((--run)->longest_ms > limit_ms) {
            taken.push_back(*run);
            run = runs.erase(run);
        }
    return taken;
}

std::size_t count_steps(std::span<const StepRun> runs) {
    std::size_t count = 0;
    for (const StepRun& run : runs) count += run.steps.size();
    return count;
}

}  // namespace

std::vector<PricedStep> choose_priced_steps(const JobRows& rows) {
    const std::vector<std::uint32_t>& all = rows.common_steps();
    const std::uint64_t steps_with_rows = most_rows * rows.steps().size() / std::max<std::uint64_t>(1, rows.count());
    const std::size_t wanted = std::max<std::size_t>(few_steps, steps_with_rows);
    std::vector<PricedStep> priced;
    const auto add = [&priced](std::span<const StepRun> runs, double weight, bool are_long) {
        for (const StepRun& run : runs)
            for (const std::uint32_t step : run.steps) priced.push_back({step, weight, are_long});
    };
    if (all.size() <= wanted) {
        for (const std::uint32_t step : all) priced.push_back({step});
        return priced;
    }
    const std::vector<double> lengths_ms = rows.step_lengths_ms();
    std::vector<StepRun> runs = find_runs(all, lengths_ms);
    const std::vector<StepRun> long_runs =
        take_long_runs(runs, much_longer * median_of(lengths_ms), wanted / run_length / one_long_of);
    std::vector<StepRun> chosen(wanted / run_length - long_runs.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = runs[index_in_segment(i, chosen.size(), runs.size())];
    const std::size_t count = count_steps(long_runs) + count_steps(chosen);
    const double weight = static_cast<double>(count) / static_cast<double>(all.size());
    add(long_runs, weight, true);
    add(chosen, weight * static_cast<double>(count_steps(runs)) / static_cast<double>(count_steps(chosen)), false);
    std::sort(priced.begin(), priced.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    return priced;
}

}  // namespace cep::tool
