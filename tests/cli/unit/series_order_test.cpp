// SPDX-License-Identifier: Apache-2.0
#include "model/repeats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cep::tool {
namespace {

RunSeries series_of(const std::string& run_id, int attempt, int start_unix_ns, std::vector<std::int64_t> steps) {
    RunSeries series;
    series.has_run = !run_id.empty();
    series.run.run_id = run_id;
    series.run.attempt = attempt;
    series.run.start_unix_ns = start_unix_ns;
    series.steps = StepNumbers(std::move(steps));
    return series;
}

std::string described(std::vector<RunSeries> all_series) {
    order_series(all_series);
    std::string text;
    const std::vector<std::size_t> runs = number_runs(all_series);
    for (std::size_t i = 0; i < runs.size(); ++i)
        text += all_series[i].run.run_id + std::to_string(all_series[i].run.attempt) + ":" +
                std::to_string(all_series[i].steps[0]) + "=" + std::to_string(runs[i]) + " ";
    return text;
}

TEST(SeriesOrder, RunsComeByTheirStartWhereNumbersRepeat) {
    EXPECT_EQ(described({series_of("b", 1, 200, {1}), series_of("a", 2, 150, {1}), series_of("a", 1, 100, {1})}),
              "a1:1=0 a2:1=1 b1:1=2 ");
}

TEST(SeriesOrder, AttemptsComeByTheirNumberWhateverTheClocksSay) {
    EXPECT_EQ(described({series_of("b", 2, 100, {1}), series_of("a", 1, 200, {1})}), "a1:1=0 b2:1=1 ");
}

TEST(SeriesOrder, RowsOfNoRunComeFirst) {
    EXPECT_EQ(described({series_of("a", 1, 100, {1}), series_of("", 1, 900, {2}), series_of("", 1, 0, {1})}),
              "1:1=0 1:2=0 a1:1=1 ");
}

TEST(SeriesOrder, OneRunInSeveralFilesIsOneRunInTheOrderOfItsSteps) {
    EXPECT_EQ(described({series_of("a", 1, 101, {5}), series_of("b", 2, 300, {1}), series_of("a", 1, 100, {3})}),
              "a1:3=0 a1:5=0 b2:1=1 ");
}

TEST(SeriesOrder, EveryOrderOfTheInputsGivesTheSame) {
    std::vector<RunSeries> all;
    for (const double duration_ms : {3.5, 1.25, 2.0}) {
        RunSeries series = series_of("a", 1, 100, {7});
        PhaseSeries& phase = series.phases.emplace_back();
        phase.name = "f";
        phase.samples = {{duration_ms, Sample::no_start, 0, 0, 0, 0}};
        all.push_back(std::move(series));
    }
    const auto by_duration = [](const RunSeries& a, const RunSeries& b) {
        return a.phases[0].samples[0].duration_ms < b.phases[0].samples[0].duration_ms;
    };
    std::vector<double> first;
    std::sort(all.begin(), all.end(), by_duration);
    do {
        std::vector<RunSeries> ordered = all;
        order_series(ordered);
        std::vector<double> durations_ms;
        for (const RunSeries& series : ordered) durations_ms.push_back(series.phases[0].samples[0].duration_ms);
        if (first.empty()) first = durations_ms;
        EXPECT_EQ(durations_ms, first);
    } while (std::next_permutation(all.begin(), all.end(), by_duration));
}

}  // namespace
}  // namespace cep::tool
