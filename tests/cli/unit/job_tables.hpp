// SPDX-License-Identifier: Apache-2.0
//
// Job tables for tests of the verdict: made-up times of a few ranks, from fixed seeds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ledger/job_table.hpp"
#include "verdict/deviation.hpp"
#include "verdict/own_work.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// Independent normal numbers, the same on every machine (std::normal_distribution is not).
class Normal {
  public:
    explicit Normal(std::uint64_t seed) : bits_(seed) {}
    double operator()() {
        const double u = (static_cast<double>(bits_()) + 1) / 18446744073709551617.0;
        const double v = static_cast<double>(bits_()) / 18446744073709551616.0;
        return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v);
    }

  private:
    std::mt19937_64 bits_;
};

using TimeOf = std::function<double(std::size_t rank, std::size_t step)>;

inline StepMatrix matrix_of(std::size_t ranks, std::size_t steps, const TimeOf& time_of) {
    StepMatrix matrix(ranks, steps);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t step = 0; step < steps; ++step) matrix.set(rank, step, time_of(rank, step));
    return matrix;
}

inline LocalPhase phase_of(std::string name, std::size_t ranks, std::size_t steps, const TimeOf& own_ms) {
    return {std::move(name), schema::Kind::compute, matrix_of(ranks, steps, own_ms), 1};
}

inline PeerGroup peers_of(std::size_t ranks) {
    PeerGroup group;
    for (std::size_t rank = 0; rank < ranks; ++rank) group.ranks.push_back(rank);
    return group;
}

/// Ranks that do their phases and then wait for the slowest one.
inline JobTable table_of(std::size_t ranks, std::size_t steps, std::vector<LocalPhase> phases) {
    JobTable table;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        table.ranks.emplace_back();
        table.ranks.back().rank = static_cast<std::int64_t>(rank);
    }
    for (std::size_t step = 0; step < steps; ++step) table.steps.push_back(static_cast<std::int64_t>(step));
    table.local = std::move(phases);
    const auto own_ms = [&table](std::size_t rank, std::size_t step) {
        double sum_ms = 0;
        for (const LocalPhase& phase : table.local) sum_ms += phase.own_ms.at(rank, step);
        return sum_ms;
    };
    std::vector<double> slowest_ms(steps, 0);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t step = 0; step < steps; ++step)
            slowest_ms[step] = std::max(slowest_ms[step], own_ms(rank, step));
    table.median_step_ms = slowest_ms;
    table.wait_ms = matrix_of(
        ranks, steps, [&](std::size_t rank, std::size_t step) { return slowest_ms[step] - own_ms(rank, step); });
    table.avoidable_ms = table.wait_ms;
    table.has_comm = true;
    table.step_ms = matrix_of(ranks, steps, [&](std::size_t, std::size_t step) { return slowest_ms[step]; });
    table.uncovered_ms = matrix_of(ranks, steps, [](std::size_t, std::size_t) { return 0.0; });
    return table;
}

/// The deviation of rows none of which is absent.
inline Deviation deviation_of(const LocalPhase& phase, const PeerGroup& group, double floor_ms = 0,
                              ChosenSteps steps = ChosenSteps::all) {
    return {phase, rows_of_role(phase.own_ms, group), group, floor_ms, steps};
}

/// Quantile of type 7, by sorting.
inline double sorted_quantile(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    const double place = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

}  // namespace cep::tool
