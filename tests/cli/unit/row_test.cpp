// SPDX-License-Identifier: Apache-2.0
#include "read/row.hpp"

#include <gtest/gtest.h>

#include "rows.hpp"

namespace cep::tool {
namespace {

TEST(RowParser, ReadsTheFourCoreKeysInAnyOrder) {
    const ParsedRow row(R"({"duration_ms":3,"rank":1,"step":9223372036854775807,"name":"all_reduce"})");
    ASSERT_NE(row.get(), nullptr);
    EXPECT_EQ(row->type, RowType::span);
    EXPECT_EQ(row->name, "all_reduce");
    EXPECT_EQ(row->step, INT64_MAX);
    EXPECT_EQ(row->rank, 1);
    EXPECT_DOUBLE_EQ(row->duration_ms, 3);
    EXPECT_EQ(row->kind, schema::Kind::comm);
    EXPECT_EQ(row->clock, Clock::none);
    EXPECT_FALSE(row->start_ns || row->depth || row->seq || row->lag_ms);
}

TEST(RowParser, GivenKindWinsOverTheName) {
    EXPECT_EQ(ParsedRow(R"({"name":"forward","step":1,"rank":0,"duration_ms":1,"kind":"host"})")->kind,
              schema::Kind::host);
    EXPECT_EQ(ParsedRow(R"({"name":"forward","step":1,"rank":0,"duration_ms":1,"kind":"new"})")->kind,
              schema::Kind::other);
}

TEST(RowParser, IgnoresAnOptionalKeyOfAnotherTypeAndSaysSo) {
    const ParsedRow row(R"({"name":"f","step":1,"rank":0,"duration_ms":1,"depth":"deep"})");
    ASSERT_NE(row.get(), nullptr);
    EXPECT_EQ(row->odd_key, "depth");
    EXPECT_FALSE(row->depth);
}

TEST(RowParser, TheLastOfARepeatedKeyCounts) {
    EXPECT_EQ(ParsedRow(R"({"name":"f","step":1,"rank":0,"duration_ms":1,"step":2})")->step, 2);
}

TEST(RowParser, ReadsARunRow) {
    const ParsedRow row(
        R"({"type":"run","schema":1,"run_id":"x","attempt":3,"rank":2,"world_size":8,"host":"n","pid":5,"device_name":null,)"
        R"("start_unix_ns":17,"clock_error_ns":4,"config":{"record_every_n_steps":10,"end_step":null,"ranks":[0,2]}})");
    ASSERT_NE(row.get(), nullptr);
    const RunInfo& run = *row->run;
    EXPECT_EQ(run.run_id, "x");
    EXPECT_EQ(run.attempt, 3);
    EXPECT_EQ(run.rank, 2);
    EXPECT_EQ(run.world_size, 8);
    EXPECT_EQ(run.start_unix_ns, 17);
    EXPECT_EQ(run.record_every_n_steps, 10);
    EXPECT_FALSE(run.end_step);
    EXPECT_EQ(run.listed_ranks, (std::vector<std::int64_t>{0, 2}));
    EXPECT_TRUE(row->odd_key.empty());
}

TEST(RowParser, ReadsAStatsRow) {
    const ParsedRow row(
        R"({"type":"stats","rank":0,"step":4,"attempt":2,"recorded":9,"dropped":{"ring":1,"io":2},"abandoned":3})");
    ASSERT_NE(row.get(), nullptr);
    EXPECT_EQ(row->stats->attempt, 2);
    EXPECT_EQ(row->stats->recorded, 9U);
    EXPECT_EQ(row->stats->dropped_ring, 1U);
    EXPECT_EQ(row->stats->dropped_io, 2U);
    EXPECT_EQ(row->stats->abandoned, 3U);
}

TEST(RowParser, AnUnknownTypeIsARow) {
    EXPECT_EQ(ParsedRow(R"({"type":"later"})")->type, RowType::unknown);
    EXPECT_EQ(ParsedRow(R"({"type":7})")->type, RowType::unknown);
}

TEST(RowParser, RefusesNumbersOutOfTheirRange) {
    const std::string span = R"({"name":"f","step":1,"rank":0,"duration_ms":1)";
    for (const char* row :
         {R"({"name":"f","step":1,"rank":-1,"duration_ms":1})",
          R"({"name":"f","step":1,"rank":4611686018427387905,"duration_ms":1})", R"({"type":"stats","rank":-1})",
          R"({"type":"run","rank":0,"start_unix_ns":4000000000000000001})",
          R"({"type":"run","rank":0,"world_size":4611686018427387905})",
          R"({"type":"open","name":"f","step":1,"rank":0,"elapsed_ms":1e300})",
          R"({"type":"mark","name":"f","step":1,"rank":0,"start_ns":9223372036854775807})"}) {
        EXPECT_EQ(ParsedRow(row).get(), nullptr) << row;
        EXPECT_NE(ParsedRow(row).why().find(" is out of range"), std::string::npos) << row;
    }
    for (const char* more :
         {R"(,"start_ns":4000000000000000001)", R"(,"start_ns":-4000000000000000001)", R"(,"lag_ms":-1e12)",
          R"(,"bytes":1125899906842625)", R"(,"seq":4611686018427387905)", R"(,"duration_ms":1e300)"})
        EXPECT_EQ(ParsedRow(span + more + "}").get(), nullptr) << more;
    for (const char* more : {R"(,"start_ns":4000000000000000000)", R"(,"lag_ms":-1e11)", R"(,"bytes":1125899906842624)",
                             R"(,"duration_ms":1e11)", R"(,"step":-9223372036854775808)"})
        EXPECT_NE(ParsedRow(span + more + "}").get(), nullptr) << more;
}

TEST(RowParser, SaysWhyARowIsNone) {
    EXPECT_EQ(ParsedRow("{").get(), nullptr);
    EXPECT_EQ(ParsedRow("{").why(), "not valid JSON");
    EXPECT_EQ(ParsedRow(R"({"name":"f","step":1,"rank":0})").why(), "no duration_ms");
    EXPECT_EQ(ParsedRow(R"({"name":"f","step":1,"rank":0,"duration_ms":1} x)").get(), nullptr);
}

}  // namespace
}  // namespace cep::tool
