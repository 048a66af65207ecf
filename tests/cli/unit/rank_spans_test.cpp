// SPDX-License-Identifier: Apache-2.0
#include "model/rank_spans.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace cep::tool {
namespace {

/// A step has none, some or many spans.
RunSeries uneven_series(std::uint32_t steps) {
    std::mt19937 random(3);
    RunSeries series;
    series.phases.emplace_back();
    for (std::uint32_t step = 0; step < steps; ++step) {
        series.steps.push_back(step);
        const std::uint32_t most = step < steps / 8 ? 40 : step < steps / 2 ? 3 : 1;
        for (auto i = random() % (most + 1); i > 0; --i) series.phases.front().samples.push_back({1, 0, 0, 0, step, 0});
    }
    return series;
}

std::size_t first_at_or_behind(const SampleList& samples, std::int64_t step) {
    std::size_t i = 0;
    while (i < samples.size() && samples[i].step_index < step) ++i;
    return i;
}

TEST(PhaseWalk, GoesToTheFirstSpanOfAStepHoweverFarThatIs) {
    const RunSeries series = uneven_series(1000);
    const SampleList& samples = series.phases.front().samples;
    std::vector<std::int64_t> table;
    for (std::int64_t step = 5; step < 1000; step += 3) table.push_back(step);
    const StepPositions positions(series, table, Attempts::all);
    for (std::uint32_t from = 0; from < table.size(); from += 13)
        for (std::uint32_t to = from; to < table.size(); to += 7) {
            PhaseWalk walk(series.phases.front(), positions, from);
            walk.advance_to_step(to);
            const std::size_t expected = first_at_or_behind(samples, table[to]);
            if (expected == samples.size()) {
                EXPECT_GE(walk.position(), 2 * table.size()) << from << ' ' << to;
            } else {
                EXPECT_EQ(&walk.sample(), &samples[expected]) << from << ' ' << to;
            }
        }
}

}  // namespace
}  // namespace cep::tool
