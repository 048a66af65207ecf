// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "simulate/layout.hpp"
#include "simulate/random.hpp"
#include "simulate/timeline.hpp"

namespace cep::simulation {
namespace {

struct Moments {
    double mean = 0;
    double variance = 0;
    double correlation = 0;  // of one number with the next
};

Moments moments_of(const std::vector<double>& values) {
    const auto count = static_cast<double>(values.size());
    Moments moments;
    for (const double value : values) moments.mean += value / count;
    for (const double value : values) moments.variance += (value - moments.mean) * (value - moments.mean) / count;
    for (std::size_t i = 1; i < values.size(); ++i)
        moments.correlation += (values[i] - moments.mean) * (values[i - 1] - moments.mean) / count / moments.variance;
    return moments;
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
    const Random random(1);
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 200'000; ++i) values.push_back(random.normal(Stream::own_noise, i % 100, i / 100, 2));
    const Moments moments = moments_of(values);
    EXPECT_NEAR(moments.mean, 0.0, 0.01);
    EXPECT_NEAR(moments.variance, 1.0, 0.015);
    EXPECT_NEAR(moments.correlation, 0.0, 0.01);
    const auto within = std::count_if(values.begin(), values.end(), [](double value) { return std::abs(value) < 1.0; });
    EXPECT_NEAR(static_cast<double>(within) / 200'000, 0.6827, 0.01);
}

TEST(Random, UniformFillsItsRange) {
    const Random random(2);
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 100'000; ++i) values.push_back(random.uniform(Stream::drop, i));
    EXPECT_NEAR(moments_of(values).mean, 0.5, 0.005);
    EXPECT_NEAR(moments_of(values).variance, 1.0 / 12, 0.002);
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 1.0);
}

TEST(Random, EachArgumentMatters) {
    const Random random(3);
    const std::set<std::uint64_t> different = {
        random.bits(Stream::drop, 1, 2, 3),  random.bits(Stream::drop, 2, 1, 3), random.bits(Stream::drop, 1, 3, 2),
        random.bits(Stream::spike, 1, 2, 3), random.bits(Stream::drop, 1, 2, 4), Random(4).bits(Stream::drop, 1, 2, 3),
        random.bits(Stream::drop, 0, 0, 0)};
    EXPECT_EQ(different.size(), 7U);
}

TEST(Exponential, AgreesWithTheLibrarys) {
    for (double x = -10; x <= 10; x += 0.01) EXPECT_NEAR(exponential(x) / std::exp(x), 1.0, 1e-10) << x;
}

std::string text_of(const std::vector<PipelineTask>& tasks) {
    std::string text;
    for (const PipelineTask& task : tasks) {
        text += task.backward ? 'B' : 'F';
        text += static_cast<char>('0' + task.micro_batch);
        text += ' ';
    }
    return text;
}

TEST(Pipeline, StagesRunOneForwardAndOneBackwardInTurn) {
    EXPECT_EQ(text_of(stage_tasks(0, 3, 4)), "F0 F1 F2 B0 F3 B1 B2 B3 ");
    EXPECT_EQ(text_of(stage_tasks(2, 3, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
    EXPECT_EQ(text_of(stage_tasks(0, 1, 2)), "F0 B0 F1 B1 ");
    EXPECT_EQ(text_of(stage_tasks(0, 4, 2)), "F0 F1 B0 B1 ");
}

TEST(Pipeline, TasksComeAfterThoseTheyWaitFor) {
    const auto tasks = pipeline_tasks(5, 7);
    ASSERT_EQ(tasks.size(), 70U);
    const auto at = [&](std::size_t stage, std::size_t micro_batch, bool backward) {
        return std::find_if(tasks.begin(), tasks.end(), [&](const PipelineTask& task) {
            return task.stage == stage && task.micro_batch == micro_batch && task.backward == backward;
        });
    };
    for (std::size_t i = 0; i < 7; ++i)
        for (std::size_t stage = 1; stage < 5; ++stage) {
            EXPECT_LT(at(stage - 1, i, false), at(stage, i, false));
            EXPECT_LT(at(stage, i, true), at(stage - 1, i, true));
        }
}

TEST(Layout, CoordinatesAndGroupsAreDistinct) {
    Job job;
    job.ranks = 24;
    job.tp = 2;
    job.pp = 3;
    job.complete();
    const Layout layout(job);
    std::set<std::string> names;
    for (std::size_t group = 0; group < layout.groups(); ++group) names.insert(layout.group_name(group));
    EXPECT_EQ(names.size(), layout.groups());
    for (std::size_t rank = 0; rank < layout.ranks; ++rank)
        EXPECT_EQ(layout.rank_of(layout.coordinates_of(rank)), rank);
    EXPECT_EQ(layout.group_name(layout.dp_group({1, 3, 2})), "dp.tp1.pp2");
    EXPECT_EQ(layout.group_name(layout.tp_group({1, 3, 2})), "tp.dp3.pp2");
    EXPECT_EQ(layout.group_name(layout.pp_group({1, 3, 1})), "pp1-2.dp3.tp1");
}

}  // namespace
}  // namespace cep::simulation
