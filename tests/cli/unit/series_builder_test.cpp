// SPDX-License-Identifier: Apache-2.0
#include "model/series_builder.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace cep::tool {
namespace {

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

TEST(SeriesBuilder, PutsStepsInTheirOrderAndLeavesThatOfTheRowsOfOne) {
    SampleMeter meter(std::make_shared<SampleBudget>(1000));
    SeriesBuilder builder(true, 0);
    const std::vector<int> steps{5, 6, 8, 6, 7, 5, 9};
    for (std::size_t i = 0; i < steps.size(); ++i)
        for (const char* const name : {"f", "all_reduce"})
            builder.add(*ParsedRow(R"({"rank":0,"duration_ms":1,"name":")" + std::string(name) + R"(","step":)" +
                                   std::to_string(steps[i]) + R"(,"bytes":)" + std::to_string(i) + R"(,"start_ns":)" +
                                   std::to_string(100 - i) + "}"),
                        meter);
    RunSeries series = builder.finish();
    EXPECT_EQ(series.steps.all(), (std::vector<std::int64_t>{5, 6, 7, 8, 9}));
    for (const char* const name : {"f", "all_reduce"}) {
        std::vector<std::pair<std::int64_t, std::int64_t>> found;
        for (const Sample& sample : series.find(name)->samples)
            found.emplace_back(series.steps[sample.step_index], sample.start_ns);
        EXPECT_EQ(found, (std::vector<std::pair<std::int64_t, std::int64_t>>{
                             {5, 100}, {5, 95}, {6, 99}, {6, 97}, {7, 96}, {8, 98}, {9, 94}}));
    }
    std::vector<std::int64_t> bytes;
    for (const CommMessage& message : series.find("all_reduce")->messages) bytes.push_back(message.bytes);
    EXPECT_EQ(bytes, (std::vector<std::int64_t>{0, 5, 1, 3, 4, 2, 6}));
}

TEST(SeriesBuilder, PhasesThatGoForwardDoNotRepeat) {
    const auto may_repeat = [](std::initializer_list<int> steps, bool has_run, int start_stride) {
        SampleMeter meter(std::make_shared<SampleBudget>(1000));
        SeriesBuilder builder;
        builder.series().has_run = has_run;
        int start_ns = 1;
        for (const int step : steps) builder.add(*ParsedRow(span_json(0, step, start_ns += start_stride)), meter);
        return builder.finish().find("f")->may_repeat;
    };
    EXPECT_FALSE(may_repeat({1, 2, 2, 3}, true, 1));
    EXPECT_TRUE(may_repeat({1, 2, 2, 3}, true, 0));
    EXPECT_FALSE(may_repeat({1, 2, 2, 3}, false, 0));
    EXPECT_TRUE(may_repeat({1, 3, 2}, true, 1));
    EXPECT_TRUE(may_repeat({5, 6, 3, 7, 4}, false, 1));
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

}  // namespace
}  // namespace cep::tool
