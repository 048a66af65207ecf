// SPDX-License-Identifier: Apache-2.0
#include "model/job_rows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/series_builder.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

constexpr long long ns_per_ms = 1'000'000;

/// A job whose ranks are each in one file.
class SmallJob {
  public:
    explicit SmallJob(int ranks) : builders_(static_cast<std::size_t>(ranks)) {}
    void host(int rank, const std::string& name) { builder(rank).series().run.host = name; }
    void add(int rank, int step, const std::string& name, long long start_ns, double duration_ms,
             const std::string& more = "") {
        add_text(rank, step, name, duration_ms, R"(,"start_ns":)" + std::to_string(start_ns) + more);
    }
    void add_without_start(int rank, int step, const std::string& name, double duration_ms) {
        add_text(rank, step, name, duration_ms, "");
    }
    /// Once.
    [[nodiscard]] JobRows rows(bool may_place = false) {
        for (std::size_t rank = 0; rank < builders_.size(); ++rank)
            job_.ranks[static_cast<std::int64_t>(rank)].push_back(builders_[rank].finish());
        number_collectives(job_, 1);
        return JobRows(job_, 1, may_place);
    }

  private:
    void add_text(int rank, int step, const std::string& name, double duration_ms, const std::string& more) {
        const ParsedRow row(R"({"name":")" + name + R"(","step":)" + std::to_string(step) + R"(,"rank":)" +
                            std::to_string(rank) + R"(,"duration_ms":)" + std::to_string(duration_ms) + more + "}");
        ASSERT_NE(row.get(), nullptr) << row.why();
        builder(rank).add(*row, meter_);
    }
    SeriesBuilder& builder(int rank) { return builders_[static_cast<std::size_t>(rank)]; }

    SampleMeter meter_{std::make_shared<SampleBudget>(1'000'000)};
    std::vector<SeriesBuilder> builders_;  // by rank
    Job job_;
};

TEST(JobRows, ASpanOfTheWholeStepIsNoRowButSaysWhenTheStepWas) {
    SmallJob job(2);
    for (int rank = 0; rank < 2; ++rank) {
        job.add(rank, 0, "training_step", 100 * ns_per_ms, 20, R"(,"kind":"step")");
        job.add(rank, 0, "forward", 103 * ns_per_ms, 7);
    }
    const JobRows rows = job.rows();
    const StepRows step = StepReader(rows).read(0);
    ASSERT_EQ(step.rows.size(), 2U);
    ASSERT_EQ(rows.names().size(), 1U);
    EXPECT_EQ(rows.names().front().name, "forward");
    EXPECT_DOUBLE_EQ(step.ranks[1].step_start_ms, 0);
    EXPECT_DOUBLE_EQ(step.ranks[1].step_end_ms, 20);
    EXPECT_EQ(step.ranks[1].last - step.ranks[1].first, 1U);
}

TEST(JobRows, RowsWithoutNumbersAreCountedInTheOrderOfTheirStarts) {
    SmallJob job(2);
    for (const int start : {50, 10, 30}) job.add(0, 0, "forward", start * ns_per_ms, 5);
    job.add(1, 0, "forward", 0, 1);
    const JobRows rows = job.rows();
    const StepRows step = StepReader(rows).read(0);
    ASSERT_EQ(step.rows.size(), 4U);
    for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(step.rows[i].seq, i);
        EXPECT_DOUBLE_EQ(step.rows[i].start_ms, 10 + 20 * i);
    }
}

TEST(JobRows, WorkOfTheHostAndCommunicationHaveStreamsOfTheirOwnWhereRowsNameNone) {
    SmallJob job(2);
    for (int rank = 0; rank < 2; ++rank) {
        job.add(rank, 0, "forward", 0, 5, R"(,"clock":"gpu")");
        job.add(rank, 0, "data_load", 0, 5, R"(,"clock":"host")");
        job.add(rank, 0, "all_reduce", 0, 5, R"(,"clock":"gpu")");
    }
    const JobRows rows = job.rows();
    const StepRows step = StepReader(rows).read(0);
    ASSERT_EQ(step.rows.size(), 6U);
    EXPECT_NE(step.rows[0].stream, step.rows[1].stream);
    EXPECT_NE(step.rows[0].stream, step.rows[2].stream);
    EXPECT_NE(step.rows[1].stream, step.rows[2].stream);
    EXPECT_TRUE(step.rows[2].is_comm);
}

TEST(JobRows, WhereARowNamesItsStreamAllStreamsAreAsNamed) {
    SmallJob job(2);
    for (int rank = 0; rank < 2; ++rank) {
        job.add(rank, 0, "forward", 0, 5, R"(,"clock":"gpu")");
        job.add(rank, 0, "all_reduce", 0, 5, R"(,"clock":"gpu")");
        job.add(rank, 0, "all_gather", 0, 5, R"(,"clock":"gpu","stream":7)");
    }
    const JobRows rows = job.rows();
    const StepRows step = StepReader(rows).read(0);
    ASSERT_EQ(step.rows.size(), 6U);
    EXPECT_EQ(step.rows[0].stream, step.rows[1].stream) << "both are on the default stream";
    EXPECT_EQ(step.rows[2].stream, 7U);
}

TEST(JobRows, RanksOfOneHostShareItAndRanksOfUnknownHostsDoNot) {
    SmallJob job(4);
    job.host(0, "node1");
    job.host(1, "node1");
    for (int rank = 0; rank < 4; ++rank) job.add(rank, 0, "forward", 0, 1);
    const JobRows rows = job.rows();
    ASSERT_EQ(rows.ranks().size(), 4U);
    EXPECT_EQ(rows.hosts().size(), 3U);
    EXPECT_EQ(rows.ranks()[0].host, rows.ranks()[1].host);
    EXPECT_NE(rows.ranks()[2].host, rows.ranks()[3].host);
    EXPECT_TRUE(rows.ranks()[0].host_is_known);
    EXPECT_FALSE(rows.ranks()[2].host_is_known);
}

TEST(JobRows, SaysWhyThereIsNoGraph) {
    SmallJob no_spans(2);
    EXPECT_EQ(no_spans.rows().reason(), "there are no spans");

    SmallJob one_rank(1);
    one_rank.add(0, 0, "forward", 0, 1);
    EXPECT_EQ(one_rank.rows().reason(), "there is one rank only");

    SmallJob no_starts(2);
    for (int rank = 0; rank < 2; ++rank) no_starts.add_without_start(rank, 0, "forward", 1);
    EXPECT_EQ(no_starts.rows().reason(), "spans have no start times");
}

TEST(JobRows, RowsWithoutStartsCanBeTakenOneBehindTheOtherInTheirStep) {
    SmallJob job(2);
    for (int rank = 0; rank < 2; ++rank)
        for (int step = 0; step < 2; ++step) {
            job.add_without_start(rank, step, "forward", 3);
            job.add_without_start(rank, step, "all_reduce", 1);
            job.add_without_start(rank, step, "train_step", 5);
        }
    const JobRows rows = job.rows(true);
    ASSERT_EQ(rows.reason(), "");
    EXPECT_TRUE(rows.are_placed());
    const StepRows step = StepReader(rows, 1).read(1);
    ASSERT_EQ(step.ranks.size(), 2U);
    for (const RankRows& rank : step.ranks) {
        EXPECT_DOUBLE_EQ(rank.step_start_ms, 5) << "it begins with the first row of its step";
        EXPECT_DOUBLE_EQ(rank.step_end_ms, 10);
        EXPECT_DOUBLE_EQ(step.rows[rank.first].start_ms, 5);
        EXPECT_DOUBLE_EQ(step.rows[rank.first + 1].start_ms, 8);
    }
}

TEST(JobRows, RowsAreNotPlacedWhereSomeHaveStarts) {
    SmallJob job(2);
    job.add(0, 0, "forward", 0, 1);
    job.add_without_start(1, 0, "forward", 1);
    const JobRows rows = job.rows(true);
    EXPECT_FALSE(rows.are_placed());
    EXPECT_EQ(rows.reason(), "spans have no start times");
}

TEST(JobRows, OneSpanInAHundredMayHaveNoStart) {
    for (const int without : {1, 2}) {
        SmallJob job(2);
        for (int step = 0; step < 99; ++step) job.add(step % 2, step, "forward", step * ns_per_ms, 1);
        for (int i = 0; i < without; ++i) job.add_without_start(0, 99 + i, "forward", 1);
        EXPECT_EQ(job.rows().reason(), without == 1 ? "" : "spans have no start times");
    }
}

TEST(StepReader, FindsStepsHoweverFarTheyAre) {
    constexpr std::uint32_t steps = 5000;
    SmallJob job(2);
    for (std::uint32_t step = 0; step < steps; ++step)
        for (int rank = 0; rank < 2; ++rank)
            if (rank == 0 || step % 3 == 0) job.add(rank, static_cast<int>(step), "forward", step * ns_per_ms, 1);
    const JobRows rows = job.rows();
    for (const std::uint32_t first : {0U, 1U, 3U, 2999U, steps - 1})
        for (const std::uint32_t stride : {1U, 2U, 5U, 7U, 1999U}) {
            StepReader reader(rows, first);
            for (std::uint32_t step = first; step < steps; step += stride) {
                const StepRows found = reader.read(step);
                ASSERT_EQ(found.rows.size(), step % 3 == 0 ? 2U : 1U) << first << ' ' << stride << ' ' << step;
                for (const TimedRow& row : found.rows) EXPECT_DOUBLE_EQ(row.start_ms, step);
            }
        }
}

}  // namespace
}  // namespace cep::tool
