// SPDX-License-Identifier: Apache-2.0
#include "read/run_tracker.hpp"

#include <gtest/gtest.h>

#include "rows.hpp"

namespace cep::tool {
namespace {

RunTracker::Assignment observe(RunTracker& tracker, const std::string& json) {
    return tracker.observe(*ParsedRow(json));
}

TEST(RunTracker, RowsBelongToTheRunRowBeforeThem) {
    RunTracker tracker;
    EXPECT_EQ(observe(tracker, span_json(0, 1, 50)).run, RunTracker::no_run);
    EXPECT_TRUE(observe(tracker, run_json(0, 1, 100)).new_run);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 150)).run, 0);
    EXPECT_TRUE(observe(tracker, run_json(0, 2, 200)).new_run);
    // The clock of the host was set back: in a file as it was written, the place says more than the time.
    EXPECT_EQ(observe(tracker, span_json(0, 1, 120)).run, 1);
}

TEST(RunTracker, OfRunRowsTogetherTheOneThatHadStartedIsTheRowsRun) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, run_json(0, 2, 200));
    EXPECT_EQ(observe(tracker, span_json(0, 1, 250)).run, 1);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 150)).run, 0);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 200)).run, 1);
}

TEST(RunTracker, StatsRowsFollowTheirAttempt) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, run_json(0, 2, 200));
    EXPECT_EQ(observe(tracker, R"({"type":"stats","rank":0,"attempt":1,"start_ns":300})").run, 0);
    EXPECT_EQ(observe(tracker, R"({"type":"stats","rank":0,"attempt":2,"start_ns":300})").run, 1);
}

TEST(RunTracker, RanksAreApart) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    EXPECT_EQ(observe(tracker, span_json(1, 1, 150)).run, RunTracker::no_run);
    EXPECT_EQ(observe(tracker, span_json(0, 1, 150)).run, 0);
}

TEST(RunTracker, ARepeatedRunRowIsNoNewRunAndItsLastFormCounts) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100));
    observe(tracker, span_json(0, 1, 150));
    const RunTracker::Assignment again = observe(tracker, run_json(0, 1, 101));
    EXPECT_FALSE(again.new_run);
    EXPECT_FALSE(again.returning);
    ASSERT_EQ(tracker.runs(0).size(), 1U);
    EXPECT_EQ(tracker.runs(0)[0].start_unix_ns, 101);
}

TEST(RunTracker, ARunThatComesBackAfterAnotherIsReturning) {
    RunTracker tracker;
    observe(tracker, run_json(0, 1, 100, "a"));
    observe(tracker, span_json(0, 1, 150));
    observe(tracker, run_json(0, 1, 120, "b"));
    observe(tracker, span_json(0, 1, 160));
    EXPECT_TRUE(observe(tracker, run_json(0, 1, 100, "a")).returning);
}

}  // namespace
}  // namespace cep::tool
