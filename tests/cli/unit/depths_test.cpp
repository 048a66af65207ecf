// SPDX-License-Identifier: Apache-2.0
#include "model/depths.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/series_builder.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

/// The rows of one step of one rank.
class Step {
  public:
    Step& add(const std::string& name, double start_ms, double end_ms, const std::string& more = "") {
        const auto start_ns = std::to_string(static_cast<std::int64_t>(start_ms * 1e6) + 1'000'000'000);
        return add_json(name, end_ms - start_ms, R"(,"start_ns":)" + start_ns + more);
    }
    Step& add_json(const std::string& name, double duration_ms, const std::string& more) {
        const ParsedRow row(R"({"name":")" + name + R"(","step":7,"rank":0,"duration_ms":)" +
                            std::to_string(duration_ms) + more + "}");
        builder_.add(*row, meter_);
        return *this;
    }
    /// By name of the phase, that of its last span.
    [[nodiscard]] std::map<std::string, std::uint32_t> depths() {
        RankSeries ranks;
        ranks[0].push_back(builder_.finish());
        find_depths(ranks, 1);
        std::map<std::string, std::uint32_t> found;
        for (const PhaseSeries& phase : ranks[0].front().phases) found[phase.name] = phase.samples.back().depth();
        return found;
    }

  private:
    SampleMeter meter_{std::make_shared<SampleBudget>(1000)};
    SeriesBuilder builder_;
};

using Depths = std::map<std::string, std::uint32_t>;

std::string gpu(int stream = 1) {
    return R"(,"clock":"gpu","stream":)" + std::to_string(stream);
}

std::string launched(double lag_ms, int stream) {
    return gpu(stream) + R"(,"lag_ms":)" + std::to_string(lag_ms);
}

TEST(Depths, ASpanIsInsideOfThoseThatContainItWhateverTheOrderOfRows) {
    Step step;
    step.add("all_reduce", 2, 3).add("forward", 1, 4).add("backward", 4, 9).add("training_step", 0, 10);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"forward", 1}, {"backward", 1}, {"all_reduce", 1}}));
}

TEST(Depths, TimesMayBeRounded) {
    Step step;
    step.add("training_step", 0, 10).add("forward", -0.001, 4).add("optimizer", 4.001, 10.002).add("clip", 4, 4.5);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"forward", 1}, {"optimizer", 1}, {"clip", 2}}));
}

TEST(Depths, ShortSpansThatFollowEachOtherAreSiblings) {
    Step step;
    step.add("scale", 1, 1.015).add("clip", 1.015, 1.025).add("zero", 1.025, 1.030);
    EXPECT_EQ(step.depths(), (Depths{{"scale", 0}, {"clip", 0}, {"zero", 0}}));
}

TEST(Depths, AStepThatIsAsLongAsItsPhaseIsOutside) {
    Step step;
    step.add("forward", 0, 10).add("training_step", 0, 10);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"forward", 1}}));
}

TEST(Depths, WorkOnAnotherStreamIsInsideOfTheStepOnly) {
    Step step;
    step.add("training_step", 0, 10, gpu()).add("forward", 1, 9, gpu()).add("host_to_device", 2, 3, gpu(4));
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"forward", 1}, {"host_to_device", 1}}));
}

TEST(Depths, CommunicationOnAnotherStreamIsInsideOfWorkThatLaunchedIt) {
    Step step;
    step.add("forward", 1, 9, launched(0.5, 1)).add("all_gather", 2, 3, launched(0.2, 2));
    step.add("broadcast", 2, 3, launched(1.6, 2));
    EXPECT_EQ(step.depths(), (Depths{{"forward", 0}, {"all_gather", 1}, {"broadcast", 0}}));
}

TEST(Depths, NothingIsInsideOfCommunication) {
    Step step;
    step.add("all_reduce", 1, 9, gpu()).add("optimizer", 2, 3, gpu()).add("all_gather", 4, 5, gpu());
    EXPECT_EQ(step.depths(), (Depths{{"all_reduce", 0}, {"optimizer", 0}, {"all_gather", 0}}));
}

TEST(Depths, WhereNobodyKnowsOfStreamsCommunicationMayRunBesideWork) {
    Step step;
    step.add("training_step", 0, 10).add("backward", 1, 9).add("all_reduce", 2, 3);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"backward", 1}, {"all_reduce", 1}}));
}

TEST(Depths, OnTheHostCommunicationIsInsideOfWork) {
    const std::string host = R"(,"clock":"host")";
    Step step;
    step.add("training_step", 0, 10, host).add("backward", 1, 9, host).add("all_reduce", 2, 3, host);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"backward", 1}, {"all_reduce", 2}}));
}

TEST(Depths, WhatTheHostDoesMeanwhileIsNotInsideOfTheDevicesWork) {
    Step step;
    step.add("training_step", 0, 10, gpu()).add("data_load", 2, 3, R"(,"clock":"host")");
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"data_load", 0}}));
}

TEST(Depths, OfTheDeviceAWorkOfTheHostHasInsideWhatItLaunched) {
    Step step;
    step.add("evaluation", 0, 10, R"(,"clock":"host")").add("forward", 2, 3, launched(1, 1));
    step.add("backward", 0.5, 1, launched(1, 1)).add("forward_no_grad", 4, 5, gpu());
    EXPECT_EQ(step.depths(), (Depths{{"evaluation", 0}, {"forward", 1}, {"backward", 0}, {"forward_no_grad", 0}}));
}

TEST(Depths, AStepOnTheHostsClockHasTheDevicesWorkInside) {
    Step step;
    step.add("training_step", 0, 10, R"(,"clock":"host")").add("forward", 2, 3, gpu());
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"forward", 1}}));
}

TEST(Depths, ThatRowsSayStay) {
    Step step;
    step.add("training_step", 0, 10, R"(,"depth":0)").add("backward", 2, 9, R"(,"depth":0)").add("loss", 3, 4);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"backward", 0}, {"loss", 0}}));
}

TEST(Depths, RowsWithoutStartsHaveNone) {
    Step step;
    step.add_json("forward", 4, "").add_json("training_step", 10, "").add("save", 1, 2);
    EXPECT_EQ(step.depths(), (Depths{{"training_step", 0}, {"forward", 0}, {"save", 0}}));
}

TEST(Depths, ThereAreNoMoreThanASampleHasRoomFor) {
    Step step;
    for (int i = 0; i < 20; ++i) step.add("f" + std::to_string(i), i, 100 - i);
    const Depths depths = step.depths();
    EXPECT_EQ(depths.at("f14"), 14U);
    EXPECT_EQ(depths.at("f19"), Sample::max_depth);
}

}  // namespace
}  // namespace cep::tool
