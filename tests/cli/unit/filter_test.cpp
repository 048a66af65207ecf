// SPDX-License-Identifier: Apache-2.0
#include "read/filter.hpp"

#include <gtest/gtest.h>

#include "base/failure.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

bool accepts_step(const char* steps, int step) {
    Filter filter;
    filter.set_steps(steps);
    const ParsedRow row(span_json(0, step, 1));
    return filter.accepts(*row);
}

TEST(Filter, StepsIncludeBothEnds) {
    EXPECT_FALSE(accepts_step("3:5", 2));
    EXPECT_TRUE(accepts_step("3:5", 3));
    EXPECT_TRUE(accepts_step("3:5", 5));
    EXPECT_FALSE(accepts_step("3:5", 6));
}

TEST(Filter, StepsMayBeOpenAtAnEndOrOneStep) {
    EXPECT_TRUE(accepts_step("3:", 1000));
    EXPECT_FALSE(accepts_step("3:", 2));
    EXPECT_TRUE(accepts_step(":5", -7));
    EXPECT_FALSE(accepts_step(":5", 6));
    EXPECT_TRUE(accepts_step("4", 4));
    EXPECT_FALSE(accepts_step("4", 5));
}

TEST(Filter, StepsAreListsOfRanges) {
    for (const int step : {0, 3, 7, 100, 5000}) EXPECT_TRUE(accepts_step(":0,3,5:9,100:", step)) << step;
    for (const int step : {1, 2, 4, 10, 99}) EXPECT_FALSE(accepts_step(":0,3,5:9,100:", step)) << step;
}

TEST(Filter, RanksAreListsOfRanges) {
    Filter filter;
    filter.set_ranks("0,3-5");
    for (const int rank : {0, 3, 4, 5}) EXPECT_TRUE(filter.accepts_rank(rank)) << rank;
    for (const int rank : {1, 2, 6}) EXPECT_FALSE(filter.accepts_rank(rank)) << rank;
}

TEST(Filter, WithPhasesOnlyTheirSpansAndRowsOfTheRunPass) {
    Filter filter;
    filter.set_phases("f,g");
    EXPECT_TRUE(filter.accepts(*ParsedRow(span_json(0, 1, 1, "g"))));
    EXPECT_FALSE(filter.accepts(*ParsedRow(span_json(0, 1, 1, "h"))));
    EXPECT_TRUE(filter.accepts(*ParsedRow(run_json(0, 1, 1))));
    EXPECT_FALSE(filter.accepts(*ParsedRow(R"({"type":"mark","name":"f","step":1,"rank":0})")));
}

TEST(Filter, RefusesWhatIsNotANumber) {
    Filter filter;
    for (const char* text : {"", "a", "1:b", "1.5", "5:1", "1:2:3"})
        EXPECT_THROW(filter.set_steps(text), UsageError) << text;
    for (const char* text : {"", "1,", "3-1", "x", "1-"}) EXPECT_THROW(filter.set_ranks(text), UsageError) << text;
    EXPECT_THROW(static_cast<void>(AttemptChoice::parse("newest")), UsageError);
}

}  // namespace
}  // namespace cep::tool
