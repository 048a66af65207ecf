// SPDX-License-Identifier: Apache-2.0
#include "model/collectives.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "model/series_builder.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

constexpr int many_steps = 700;

class CollectiveJob {
  public:
    void add(std::int64_t rank, int step, const std::string& name, double duration_ms, const std::string& more = "") {
        const ParsedRow row(R"({"kind":"comm","name":")" + name + R"(","step":)" + std::to_string(step) +
                            R"(,"rank":)" + std::to_string(rank) + R"(,"duration_ms":)" + std::to_string(duration_ms) +
                            more + "}");
        ASSERT_NE(row.get(), nullptr) << row.why();
        builders_[rank].add(*row, meter_);
    }
    /// Once.
    Collectives number(std::size_t threads = 1) {
        for (auto& [rank, builder] : builders_) ranks_[rank].push_back(builder.finish());
        std::vector<std::int64_t> steps(many_steps);
        std::iota(steps.begin(), steps.end(), 0);
        return number_collectives(ranks_, steps, threads);
    }
    /// The numbers of a phase, in the order of its samples.
    [[nodiscard]] std::vector<std::uint32_t> numbers(std::int64_t rank, const std::string& name) {
        std::vector<std::uint32_t> numbers;
        for (const Sample& sample : ranks_[rank].front().find(name)->samples) numbers.push_back(sample.collective);
        return numbers;
    }

  private:
    SampleMeter meter_{std::make_shared<SampleBudget>(1'000'000)};
    std::map<std::int64_t, SeriesBuilder> builders_;  // by rank
    RankSeries ranks_;
};

TEST(Collectives, HaveTheLeastDurationOfAnyRank) {
    CollectiveJob job;
    for (int rank = 0; rank < 4; ++rank)
        for (int step = 0; step < many_steps; ++step)
            job.add(rank, step, "all_reduce", step + (rank == 2 ? 1 : 5), R"(,"coll":3)");
    const Collectives found = job.number(2);
    ASSERT_EQ(found.size(), 1U + many_steps);
    for (int rank = 0; rank < 4; ++rank)
        for (int step = 0; step < many_steps; ++step) {
            const Collective& one = found[job.numbers(rank, "all_reduce")[static_cast<std::size_t>(step)]];
            ASSERT_EQ(one.transfer_ms, step + 1);
            ASSERT_EQ(one.ranks, Collective::many_ranks);
        }
}

TEST(Collectives, OfOneRankHaveNumber0) {
    CollectiveJob job;
    job.add(0, 1, "all_reduce", 5, R"(,"coll":1)");
    job.add(0, 1, "all_reduce", 5, R"(,"coll":1)");
    job.add(1, 2, "all_reduce", 5, R"(,"coll":1)");
    job.add(1, 1, "all_reduce", 5, R"(,"coll":2)");
    EXPECT_EQ(job.number().size(), 1U);
    EXPECT_EQ(job.numbers(0, "all_reduce"), (std::vector<std::uint32_t>{0, 0}));
}

TEST(Collectives, WithoutNumbersAreTheNthOfTheirNameInTheStep) {
    CollectiveJob job;
    for (int rank = 0; rank < 2; ++rank)
        for (int step = 0; step < 3; ++step)
            for (const double ms : {1, 10}) job.add(rank, step, "all_reduce", ms);
    const Collectives found = job.number();
    ASSERT_EQ(found.size(), 7U);
    EXPECT_EQ(job.numbers(0, "all_reduce"), job.numbers(1, "all_reduce"));
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_EQ(found[job.numbers(0, "all_reduce")[i]].transfer_ms, i % 2 == 0 ? 1 : 10);
}

TEST(Collectives, WithoutNumbersAreCountedInTheOrderOfTheirStarts) {
    CollectiveJob job;
    job.add(0, 1, "all_reduce", 1, R"(,"start_ns":100)");
    job.add(0, 1, "all_reduce", 10, R"(,"start_ns":200)");
    job.add(1, 1, "all_reduce", 10, R"(,"start_ns":201)");
    job.add(1, 1, "all_reduce", 1, R"(,"start_ns":101)");
    ASSERT_EQ(job.number().size(), 3U);
    const std::vector<std::uint32_t> of_first = job.numbers(0, "all_reduce");
    EXPECT_EQ(job.numbers(1, "all_reduce"), (std::vector<std::uint32_t>{of_first[1], of_first[0]}));
}

TEST(Collectives, AreThoseOfOneStepWhateverTheOrderOfTheSteps) {
    CollectiveJob job;
    for (const int step : {1, 2, 3}) job.add(0, step, "all_reduce", step);
    for (const int step : {3, 1, 2}) job.add(1, step, "all_reduce", step);
    EXPECT_EQ(job.number().size(), 4U);
    EXPECT_EQ(job.numbers(0, "all_reduce"), (std::vector<std::uint32_t>{1, 2, 3}));
    EXPECT_EQ(job.numbers(1, "all_reduce"), (std::vector<std::uint32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace cep::tool
