// SPDX-License-Identifier: Apache-2.0
#include "model/repeats.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "model/series_builder.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

RunSeries series_of(int attempt, std::initializer_list<int> steps, bool has_run = true) {
    SampleMeter meter(std::make_shared<SampleBudget>(1000));
    SeriesBuilder builder;
    RunSeries& series = builder.series();
    series.has_run = has_run;
    series.run.run_id = has_run ? "a" : "";
    series.run.attempt = attempt;
    series.run.start_unix_ns = attempt * 1000;
    for (const int step : steps) builder.add(*ParsedRow(span_json(0, step, attempt * 1000 + step)), meter);
    return builder.finish();
}

std::vector<std::int64_t> steps_left(RunSeries& series) {
    std::vector<std::int64_t> steps;
    for (const Sample& sample : series.find("f")->samples) steps.push_back(series.steps[sample.step_index]);
    return steps;
}

TEST(RemoveRepeats, KeepsTheLastAttemptOfAStepWhateverTheOrderOfFiles) {
    std::vector<RunSeries> all;
    all.push_back(series_of(2, {3, 4}));
    all.push_back(series_of(1, {1, 2, 3, 4, 5}));
    const RepeatCounts counts = remove_repeats(all, true);
    EXPECT_EQ(counts.superseded_rows, 2U);
    EXPECT_EQ(counts.duplicate_rows, 0U);
    EXPECT_EQ(steps_left(all[0]), (std::vector<std::int64_t>{1, 2, 5}));
    EXPECT_EQ(steps_left(all[1]), (std::vector<std::int64_t>{3, 4}));
}

TEST(RemoveRepeats, KeepsEveryAttemptWhenAsked) {
    std::vector<RunSeries> all;
    all.push_back(series_of(1, {1, 2}));
    all.push_back(series_of(2, {2, 3}));
    EXPECT_EQ(remove_repeats(all, false).superseded_rows, 0U);
    EXPECT_EQ(steps_left(all[0]).size() + steps_left(all[1]).size(), 4U);
}

TEST(RemoveRepeats, CountsARowOfTheSameRunOnce) {
    std::vector<RunSeries> all;
    all.push_back(series_of(1, {1, 2, 3}));
    all.push_back(series_of(1, {2, 3, 4}));
    EXPECT_EQ(remove_repeats(all, true).duplicate_rows, 2U);
    EXPECT_EQ(steps_left(all[0]).size() + steps_left(all[1]).size(), 4U);
}

TEST(RemoveRepeats, KeepsRowsThatBelongToNoRun) {
    std::vector<RunSeries> all;
    all.push_back(series_of(1, {1, 2}, false));
    all.push_back(series_of(1, {1, 2}, false));
    const RepeatCounts counts = remove_repeats(all, true);
    EXPECT_EQ(counts.duplicate_rows + counts.superseded_rows, 0U);
}

}  // namespace
}  // namespace cep::tool
