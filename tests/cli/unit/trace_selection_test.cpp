// SPDX-License-Identifier: Apache-2.0
#include "trace/selection.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace cep::tool {
namespace {

/// 100 steps. Only step 10 has samples, as in a job that has too many spans to keep.
Job job_with_samples_of_step_10(const std::vector<double>& forward_ms) {
    std::vector<std::int64_t> steps(100);
    std::iota(steps.begin(), steps.end(), 0);
    Job job;
    job.choice = StepChoice(6);
    for (std::size_t rank = 0; rank < forward_ms.size(); ++rank) {
        RunSeries& series = job.ranks[static_cast<std::int64_t>(rank)].emplace_back();
        series.steps = StepNumbers(steps);
        PhaseSeries& phase = series.phases.emplace_back();
        phase.name = "training_step";
        phase.kind = schema::Kind::step;
        phase.samples = {{forward_ms[rank], Sample::no_start, 0, 0, 10, 0}};
    }
    return job;
}

TEST(TraceSelection, WhereNoneOfTheLastStepsIsKeptRanksAreComparedInThoseThatAre) {
    const auto selection = select(job_with_samples_of_step_10({3, 1, 4, 2}), Filter());
    ASSERT_TRUE(selection);
    EXPECT_EQ(selection->ranks, (std::vector<std::int64_t>{1, 3, 2}));
    EXPECT_EQ(selection->steps.front(), 50);
    EXPECT_EQ(selection->steps.back(), 99);
}

}  // namespace
}  // namespace cep::tool
