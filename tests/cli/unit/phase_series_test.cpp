// SPDX-License-Identifier: Apache-2.0
#include "model/phase_series.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rows.hpp"

namespace cep::tool {
namespace {

std::string name_of(int phase) {
    return "phase_" + std::to_string(phase);
}

TEST(RunSeries, TellsFewAndManyPhasesApartInWhateverOrderTheyCome) {
    for (const int phases : {1, 2, 15, 16, 17, 60}) {
        SampleMeter meter(std::make_shared<SampleBudget>(1'000'000));
        RunSeries series;
        for (int step = 0; step < 40; ++step)
            for (int i = 0; i < phases; ++i) {
                const int phase = (i * (step % 2 == 0 ? 1 : 7) + step) % phases;
                series.add(*ParsedRow(span_json(0, step, 1000 * step + phase, name_of(phase))), meter);
            }
        EXPECT_EQ(series.phases.size(), static_cast<std::size_t>(phases));
        for (int phase = 0; phase < phases; ++phase) {
            const PhaseSeries* found = series.find(name_of(phase));
            ASSERT_NE(found, nullptr);
            for (const Sample& sample : found->samples) EXPECT_EQ(sample.start_ns % 1000, phase);
        }
    }
}

TEST(RunSeries, KnowsAStepThatItHadBefore) {
    SampleMeter meter(std::make_shared<SampleBudget>(1000));
    RunSeries series;
    const std::vector<int> steps{5, 6, 8, 6, 7, 5, 9};
    for (const int step : steps) series.add(*ParsedRow(span_json(0, step, 100 + step)), meter);
    std::vector<std::int64_t> found;
    for (const Sample& sample : series.find("f")->samples) found.push_back(series.steps[sample.step_index]);
    EXPECT_EQ(found, (std::vector<std::int64_t>{5, 6, 8, 6, 7, 5, 9}));
    EXPECT_EQ(series.steps.all(), (std::vector<std::int64_t>{5, 6, 8, 7, 9}));
}

TEST(RunSeries, PhasesThatGoForwardDoNotRepeat) {
    const auto may_repeat = [](std::initializer_list<int> steps, bool has_run, int start_stride) {
        SampleMeter meter(std::make_shared<SampleBudget>(1000));
        RunSeries series;
        series.has_run = has_run;
        int start_ns = 1;
        for (const int step : steps) series.add(*ParsedRow(span_json(0, step, start_ns += start_stride)), meter);
        return series.find("f")->may_repeat;
    };
    EXPECT_FALSE(may_repeat({1, 2, 2, 3}, true, 1));
    EXPECT_TRUE(may_repeat({1, 2, 2, 3}, true, 0));
    EXPECT_FALSE(may_repeat({1, 2, 2, 3}, false, 0));
    EXPECT_TRUE(may_repeat({1, 3, 2}, true, 1));
    EXPECT_TRUE(may_repeat({5, 6, 3, 7, 4}, false, 1));
}

TEST(RunSeries, WhatGoesBeyondTheBudgetIsCountedInTotalsAndSomeStepsAreKept) {
    SampleMeter meter(std::make_shared<SampleBudget>(2000));
    RunSeries series;
    constexpr int rows = 10'000;
    for (int step = 0; step < rows; ++step) {
        series.add(*ParsedRow(span_json(0, step, step)), meter);
        if (!meter.is_due()) continue;
        meter.spend(series.step_tally());
        series.thin(meter.choice());
    }
    meter.spend(series.step_tally());
    series.thin(meter.choice());
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

TEST(Sample, HasTheLargestPlaceForWhatHasNoRoom) {
    const auto place_of = [](const std::string& keys) {
        return Sample{
            0, 0, 0,
            0, 0, Sample::place_of(*ParsedRow(R"({"name":"f","step":1,"rank":0,"duration_ms":1)" + keys + "}"), false)};
    };
    EXPECT_EQ(place_of("").place, 0U);
    const Sample usual = place_of(R"(,"depth":2,"stream":7,"seq":40)");
    EXPECT_EQ(usual.depth(), 2U);
    EXPECT_EQ(usual.stream(), 7U);
    EXPECT_EQ(usual.seq(), 40U);
    const Sample large = place_of(R"(,"depth":16,"stream":1024,"seq":9000000000)");
    EXPECT_EQ(large.depth(), Sample::max_depth);
    EXPECT_EQ(large.stream(), Sample::max_stream);
    EXPECT_EQ(large.seq(), Sample::max_seq);
    EXPECT_EQ(place_of(R"(,"depth":-1,"stream":-5,"seq":-9000000000)").place, 0U);
}

}  // namespace
}  // namespace cep::tool
