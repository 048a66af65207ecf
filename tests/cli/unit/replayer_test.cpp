// SPDX-License-Identifier: Apache-2.0
#include "replay/replayer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cep::tool {
namespace {

/// A step whose nodes are added in the order in which they run.
class SmallGraph {
  public:
    explicit SmallGraph(std::uint32_t ranks) : ranks_(ranks) {}

    struct Wait {
        std::uint32_t from;
        float behind = 0;
        float delay_ms = 0;
    };
    static Wait step_before(std::uint32_t rank) { return {rank}; }
    [[nodiscard]] Wait end_of(std::uint32_t node, float delay_ms = 0) const { return {ranks_ + node, 0, delay_ms}; }
    [[nodiscard]] Wait part_of(std::uint32_t node, float share) const { return {ranks_ + node, share - 1}; }

    std::uint32_t add(float own_ms, const std::vector<Wait>& waits, std::uint32_t rank = 0) {
        for (const Wait& wait : waits) graph_.edges.push_back({wait.from, wait.behind, wait.delay_ms, 0});
        graph_.own_ms.push_back(own_ms);
        graph_.keys.push_back(0);
        graph_.ranks.push_back(rank);
        graph_.weights.push_back(Weight::observed);
        graph_.edge_ends.push_back(static_cast<std::uint32_t>(graph_.edges.size()));
        return static_cast<std::uint32_t>(graph_.size() - 1);
    }
    void end(std::uint32_t rank, std::uint32_t node) { graph_.ends.emplace_back(rank, node); }
    [[nodiscard]] const StepGraph& graph() const { return graph_; }

  private:
    std::uint32_t ranks_;
    StepGraph graph_;
};

const Scenario as_it_was = {[](const StepGraph& /*graph*/, std::span<float> /*own_ms*/) {}};
const std::vector<NodeKey> one_key(1);

Scenario with(std::uint32_t node, float ms) {
    return {[=](const StepGraph& /*graph*/, std::span<float> own_ms) { own_ms[node] = ms; }};
}

/// Work of 10 ms and 12 ms, a collective of 3 ms, and 1 ms on each rank.
StepGraph two_ranks_that_meet() {
    SmallGraph graph(2);
    const auto first = graph.add(10, {SmallGraph::step_before(0)});
    const auto second = graph.add(12, {SmallGraph::step_before(1)});
    const auto collective = graph.add(3, {graph.end_of(first), graph.end_of(second)});
    graph.end(0, graph.add(1, {graph.end_of(collective)}));
    graph.end(1, graph.add(1, {graph.end_of(collective)}));
    return graph.graph();
}

TEST(Replayer, RanksWaitForTheLastOneInACollective) {
    const std::vector<StepGraph> graphs(5, two_ranks_that_meet());
    const Replayer replayer(graphs, one_key, 2, 1);
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(as_it_was), 16);
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(with(1, 10)), 14) << "as fast as the other";
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(with(1, 5)), 14) << "then the other is the last";
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(with(0, 5)), 16) << "nobody waits for the first";
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(with(2, 0)), 13) << "without the transfer";
}

TEST(Replayer, ManyScenariosAtOnceGiveWhatEachGivesAlone) {
    const std::vector<StepGraph> graphs(3, two_ranks_that_meet());
    std::vector<Scenario> scenarios;
    std::vector<double> alone_ms;
    const Replayer replayer(graphs, one_key, 2, 2);
    for (int i = 0; i < 21; ++i) {
        scenarios.push_back(with(1, static_cast<float>(i)));
        alone_ms.push_back(replayer.mean_step_ms(scenarios.back()));
    }
    EXPECT_EQ(replayer.mean_steps_ms(scenarios), alone_ms);
    EXPECT_DOUBLE_EQ(alone_ms.back(), 24);
}

TEST(Replayer, WhatALongStepLosesDoesNotFallIntoAnOtherOne) {
    // After its last collective, rank 1 works for 9 ms more in the long step.
    std::vector<StepGraph> graphs(4, two_ranks_that_meet());
    graphs[1].is_long = graphs[2].is_long = true;
    graphs[1].own_ms[4] += 9;
    const Replayer replayer(graphs, one_key, 2, 1);
    EXPECT_EQ(replayer.steps_ms(std::span(&as_it_was, 1)).front(), (std::vector<double>{16, 20.5, 20.5, 16}));
}

TEST(Replayer, CommunicationBesideWorkCostsWhatGoesBeyondIt) {
    // Launched halfway through work of 20 ms; the optimizer waits for both.
    for (const auto& [transfer_ms, step_ms] : {std::pair{5.0F, 21.0}, {10.0F, 21.0}, {15.0F, 26.0}}) {
        SmallGraph graph(1);
        const auto work = graph.add(20, {SmallGraph::step_before(0)});
        const auto transfer = graph.add(transfer_ms, {graph.part_of(work, 0.5F)});
        graph.end(0, graph.add(1, {graph.end_of(work), graph.end_of(transfer)}));
        const std::vector<StepGraph> graphs(4, graph.graph());
        EXPECT_DOUBLE_EQ(Replayer(graphs, one_key, 1, 1).mean_step_ms(as_it_was), step_ms);
    }
}

TEST(Replayer, OfDelaysAsMuchRemainsAsTheLimitAllows) {
    SmallGraph graph(1);
    const auto work = graph.add(10, {SmallGraph::step_before(0)});
    graph.end(0, graph.add(5, {graph.end_of(work, 4)}));
    const std::vector<StepGraph> graphs(3, graph.graph());
    Replayer replayer(graphs, one_key, 1, 1);
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(as_it_was), 15);
    replayer.set_delays({1.5F}, {});
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(as_it_was), 16.5);
    replayer.set_delays({100}, {});
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(as_it_was), 19);
}

TEST(Replayer, APromptRankBeginsAsItsRoleUsuallyDoes) {
    // Rank 1 begins 20 ms late in each step; usually, 2 ms pass. Both wait for the other at the end.
    SmallGraph graph(2);
    const auto first = graph.add(10, {{0, 0, 2}}, 0);
    const auto second = graph.add(10, {{1, 0, 20}}, 1);
    const auto collective = graph.add(3, {graph.end_of(first), graph.end_of(second)});
    graph.end(0, collective);
    graph.end(1, collective);
    const std::vector<StepGraph> graphs(4, graph.graph());
    Replayer replayer(graphs, one_key, 2, 1);
    replayer.set_delays({100}, {2});
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms(as_it_was), 33);
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms({as_it_was.set_work, {false, true}}), 15);
    EXPECT_DOUBLE_EQ(replayer.mean_step_ms({as_it_was.set_work, {true, false}}), 33) << "the other one is prompt";
}

}  // namespace
}  // namespace cep::tool
