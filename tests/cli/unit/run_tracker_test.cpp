// SPDX-License-Identifier: Apache-2.0
#include "read/run_tracker.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "rows.hpp"

namespace cep::tool {
namespace {

RunOfRow observe(RunTracker& tracker, const std::string& json) {
    return tracker.observe(*ParsedRow(json));
}

TEST(RunTracker, RowsBelongToTheRunRowBeforeThem) {
    RunTracker tracker;
    EXPECT_EQ(observe(tracker, span_json(0, 1, 50)).index, RunOfRow::none);
    EXPECT_TRUE(observe(tracker, run_json(0, 1, 100)).is_new);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 150)).index, 0);
    EXPECT_TRUE(observe(tracker, run_json(0, 2, 200)).is_new);
    // The clock of the host was set back: in a file as it was written, the place says more than the time.
    EXPECT_EQ(observe(tracker, span_json(0, 1, 120)).index, 1);
}

TEST(RunTracker, OfRunRowsTogetherTheOneThatHadStartedIsTheRowsRun) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, run_json(0, 2, 200));
    EXPECT_EQ(observe(tracker, span_json(0, 1, 250)).index, 1);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 150)).index, 0);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 200)).index, 1);
}

TEST(RunTracker, StatsRowsFollowTheirAttempt) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, run_json(0, 2, 200));
    EXPECT_EQ(observe(tracker, R"({"type":"stats","rank":0,"attempt":1,"start_ns":300})").index, 0);
    EXPECT_EQ(observe(tracker, R"({"type":"stats","rank":0,"attempt":2,"start_ns":300})").index, 1);
}

TEST(RunTracker, RanksAreApart) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    EXPECT_EQ(observe(tracker, span_json(1, 1, 150)).index, RunOfRow::none);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 150)).index, 0);
}

TEST(RunTracker, ARepeatedRunRowIsNoNewRunAndItsLastFormCounts) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, span_json(0, 1, 150));
    const RunOfRow again = observe(tracker, run_json(0, 1, 101));
    EXPECT_FALSE(again.is_new);
    EXPECT_FALSE(again.is_returning);
    ASSERT_EQ(tracker.runs(0).size(), 1U);
    EXPECT_EQ(tracker.runs(0)[0].start_unix_ns, 101);
}

TEST(RunTracker, ARunThatComesBackAfterAnotherIsReturning) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100, "a"));
    observe(tracker, span_json(0, 1, 150));
    observe(tracker, run_json(0, 1, 120, "b"));
    observe(tracker, span_json(0, 1, 160));
    EXPECT_TRUE(observe(tracker, run_json(0, 1, 100, "a")).is_returning);
}

TEST(RunTracker, RowsBeforeAnyRunRowAreAStartOfTheFirstThatHasAStep) {
    RunTracker tracker;
    observe(tracker, R"({"type":"stats","rank":0,"start_ns":10})");
    observe(tracker, span_json(0, 7, 20));
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, span_json(0, 8, 150));
    std::vector<std::pair<int, std::optional<std::int64_t>>> starts;
    tracker.for_each_start([&](std::int64_t, int index, const RunStart& start, bool in_turn) {
        EXPECT_FALSE(in_turn);
        starts.emplace_back(index, start.first_step);
    });
    ASSERT_EQ(starts.size(), 2U);
    EXPECT_EQ(starts[0], std::pair(RunOfRow::none, std::optional<std::int64_t>(7)));
    EXPECT_EQ(starts[1], std::pair(0, std::optional<std::int64_t>(8)));
}

}  // namespace
}  // namespace cep::tool
