// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "matching/collective_key.hpp"
#include "matching/process_group.hpp"
#include "model/comm_rows.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

RunInfo rank_at(std::int64_t dp, std::int64_t tp) {
    RunInfo run;
    run.dp = dp;
    run.tp = tp;
    return run;
}

std::uint64_t key_of(const std::string& name, const std::string& more, const RunInfo& run = {}) {
    const ParsedRow row(R"({"name":")" + name + R"(","step":1,"rank":0,"duration_ms":1)" + more + "}");
    CollectiveKey key;
    key.enter_group(*row, run);
    return key.of(*row);
}

TEST(CollectiveKey, IsThatOfGroupOperationAndNumber) {
    const std::uint64_t key = key_of("all_reduce", R"(,"group":"dp","coll":7,"seq":1)");
    EXPECT_EQ(key, key_of("all_reduce.bucket3", R"(,"group":"dp","coll":7,"seq":2)"));
    EXPECT_NE(key, key_of("all_reduce", R"(,"group":"dp","coll":8)"));
    EXPECT_NE(key, key_of("all_reduce", R"(,"group":"tp","coll":7)"));
    EXPECT_NE(key, key_of("all_gather", R"(,"group":"dp","coll":7)")) << "each operation may be counted by itself";
    EXPECT_NE(key_of("dispatch", R"(,"coll":7)"), key_of("combine", R"(,"coll":7)"));
    EXPECT_EQ(key_of("send", R"(,"group":"pp","coll":7)"), key_of("recv", R"(,"group":"pp","coll":7)"));
}

TEST(CollectiveKey, WithoutANumberIsThatOfGroupNameAndSeq) {
    const std::uint64_t key = key_of("all_reduce", R"(,"seq":2)");
    EXPECT_EQ(key, key_of("all_reduce", R"(,"seq":2)"));
    EXPECT_NE(key, key_of("all_reduce", R"(,"seq":3)"));
    EXPECT_NE(key, key_of("allreduce", R"(,"seq":2)"));
    EXPECT_NE(key, key_of("all_reduce", R"(,"group":"dp","seq":2)"));
    EXPECT_NE(key, key_of("all_reduce", R"(,"coll":2)"));
    EXPECT_NE(CollectiveKey::nth(key, 1), CollectiveKey::nth(key, 2));
}

TEST(CollectiveKey, OfAGroupNamedByItsAxisTellsThePlacesOnTheOthersApart) {
    const std::string more = R"(,"group":"dp","coll":7)";
    EXPECT_EQ(key_of("all_reduce", more, rank_at(0, 1)), key_of("all_reduce", more, rank_at(1, 1)));
    EXPECT_NE(key_of("all_reduce", more, rank_at(0, 0)), key_of("all_reduce", more, rank_at(0, 1)));
}

TEST(ProcessGroup, NamedByItsAxisIsOneGroupAtEachPlaceOnTheOtherAxes) {
    RunInfo run;
    run.dp = 3;
    run.tp = 0;
    run.pp = 2;
    EXPECT_EQ(full_group_name("dp", axis_coordinates_of(run)), "dp.tp0.pp2");
    EXPECT_EQ(full_group_name("tp", axis_coordinates_of(run)), "tp.dp3.pp2");
    EXPECT_EQ(full_group_name("dp_3", axis_coordinates_of(run)), "dp_3");
    EXPECT_EQ(full_group_name("dp", axis_coordinates_of(RunInfo{})), "dp");
}

TEST(ProcessGroup, HasAKindWithoutWhatNumbersIt) {
    for (const char* const name : {"dp", "dp.tp0.pp2", "dp_3", "dp-3", "dp:0", "dp[7]"})
        EXPECT_EQ(group_kind(name), "dp") << name;
}

TEST(ForEachCollective, MembersAreTogetherInTheOrderOfTheirRanks) {
    struct Part {
        CollectiveId id;
        std::uint32_t rank;
        double start_ms;
    };
    std::vector<Part> parts = {{2, 1, 0}, {1, 0, 5}, {2, 0, 0}, {1, 0, 4}, {1, 3, 0}};
    sort_by_collective(parts, [](const Part& part) { return part.start_ms; });
    std::vector<std::vector<double>> found;
    for_each_collective(parts, [&found](std::span<const Part> members) {
        found.emplace_back();
        for (const Part& part : members) found.back().push_back(10.0 * part.rank + part.start_ms);
    });
    EXPECT_EQ(found, (std::vector<std::vector<double>>{{4, 5, 30}, {0, 10}}));
}

}  // namespace
}  // namespace cep::tool
