// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/rank_spans.hpp"
#include "model/repeats.hpp"
#include "model/series_builder.hpp"
#include "rows.hpp"

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

std::string name_of(int phase) {
    return "phase_" + std::to_string(phase);
}

TEST(SeriesBuilder, TellsFewAndManyPhasesApartInWhateverOrderTheyCome) {
    for (const int phases : {1, 2, 15, 16, 17, 60}) {
        SampleMeter meter(std::make_shared<SampleBudget>(1'000'000));
        SeriesBuilder builder;
        for (int step = 0; step < 40; ++step)
            for (int i = 0; i < phases; ++i) {
                const int phase = (i * (step % 2 == 0 ? 1 : 7) + step) % phases;
                builder.add(*ParsedRow(span_json(0, step, 1000 * step + phase, name_of(phase))), meter);
            }
        RunSeries series = builder.finish();
        EXPECT_EQ(series.phases.size(), static_cast<std::size_t>(phases));
        for (int phase = 0; phase < phases; ++phase) {
            const PhaseSeries* found = series.find(name_of(phase));
            ASSERT_NE(found, nullptr);
            for (const Sample& sample : found->samples) EXPECT_EQ(sample.start_ns % 1000, phase);
        }
    }
}

TEST(SeriesBuilder, WhatGoesBeyondTheBudgetIsCountedInTotalsAndSomeStepsAreKept) {
    SampleMeter meter(std::make_shared<SampleBudget>(2000));
    SeriesBuilder builder;
    constexpr int rows = 10'000;
    for (int step = 0; step < rows; ++step) {
        builder.add(*ParsedRow(span_json(0, step, step)), meter);
        if (!meter.is_due()) continue;
        meter.spend(builder.step_tally());
        builder.series().thin(meter.choice());
    }
    meter.spend(builder.step_tally());
    builder.series().thin(meter.choice());
    RunSeries series = builder.finish();
    const PhaseSeries& phase = *series.find("f");
    EXPECT_EQ(meter.choice(), StepChoice(3));
    EXPECT_NEAR(static_cast<double>(phase.samples.size()), rows / 8.0, 150);
    for (const Sample& sample : phase.samples) {
        EXPECT_TRUE(meter.choice().keeps(series.steps[sample.step_index]));
        EXPECT_EQ(sample.start_ns, series.steps[sample.step_index]);
    }
    EXPECT_EQ(totals_of(phase).count, static_cast<std::uint64_t>(rows));
    EXPECT_DOUBLE_EQ(totals_of(phase).sum_ms, 1.5 * rows);
}

TEST(PhaseSeries, MessagesGoWithTheirSamples) {
    PhaseSeries phase;
    for (std::uint32_t i = 0; i < 5000; ++i) {
        phase.samples.push_back({1, i, 0, 0, i, 0});
        phase.messages.push_back({i % 7, std::int64_t{i}});
    }
    EXPECT_EQ(phase.erase_samples_if([](const Sample& sample) { return sample.step_index % 3 != 1; }), 3333U);
    ASSERT_EQ(phase.messages.size(), phase.samples.size());
    for (std::size_t i = 0; i < phase.messages.size(); ++i)
        EXPECT_EQ(phase.messages[i].bytes, phase.samples[i].start_ns);
}

TEST(SeriesBuilder, TakesTheLargestAttributeForWhatHasNoRoom) {
    const auto sample_of = [](const std::string& keys) {
        const ParsedRow row(R"({"name":"f","step":1,"rank":0,"duration_ms":1)" + keys + "}");
        return Sample{0, 0, 0, 0, 0, SeriesBuilder::attributes_of(*row, false)};
    };
    EXPECT_EQ(sample_of("").attributes, 0U);
    const Sample usual = sample_of(R"(,"depth":2,"stream":7,"seq":40)");
    EXPECT_EQ(usual.depth(), 2U);
    EXPECT_EQ(usual.stream(), 7U);
    EXPECT_EQ(usual.seq(), 40U);
    const Sample large = sample_of(R"(,"depth":16,"stream":1024,"seq":9000000000)");
    EXPECT_EQ(large.depth(), Sample::max_depth);
    EXPECT_EQ(large.stream(), Sample::max_stream);
    EXPECT_EQ(large.seq(), Sample::max_seq);
    EXPECT_EQ(sample_of(R"(,"depth":-1,"stream":-5,"seq":-9000000000)").attributes, 0U);
}

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
