// SPDX-License-Identifier: Apache-2.0
#include "read/inputs.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/failure.hpp"
#include "own_path.hpp"

namespace cep::tool {
namespace {

TEST(RankOfFileName, IsTheNumberOfARankFile) {
    EXPECT_EQ(rank_of_file_name("/a/b/cuda_events_rank_12.jsonl"), 12);
    EXPECT_EQ(rank_of_file_name("cuda_events_rank_0.jsonl.gz"), 0);
    EXPECT_EQ(rank_of_file_name("cuda_events_rank_7.jsonl.zst"), 7);
    for (const char* name : {"cuda_events_rank_.jsonl", "cuda_events_rank_1x.jsonl", "cuda_events_rank_-1.jsonl",
                             "cuda_events_rank_1.json", "other.jsonl", "cuda_events_rank_1.jsonl.XXXXXX"})
        EXPECT_FALSE(rank_of_file_name(name)) << name;
}

TEST(FindInputs, OrdersFilesOfADirectoryByRank) {
    const std::string directory = own_path("cep-inputs");
    std::filesystem::create_directory(directory);
    for (const int rank : {10, 2, 0, 1})
        std::ofstream(directory + "/cuda_events_rank_" + std::to_string(rank) + ".jsonl") << "{}";
    const InputSet set = find_inputs({directory}, "");
    std::filesystem::remove_all(directory);
    std::vector<std::int64_t> ranks;
    for (const InputFile& file : set.files) ranks.push_back(file.name_rank.value());
    EXPECT_EQ(ranks, (std::vector<std::int64_t>{0, 1, 2, 10}));
    EXPECT_EQ(set.size_bytes, 8U);
}

TEST(FindInputs, OrdersFilesByFolderThenByRankThenByName) {
    const std::filesystem::path top = own_path("cep-inputs-folders");
    std::vector<std::string> arguments;
    const std::vector<std::string> in_order = {"a/cuda_events_rank_2.jsonl",
                                               "a/cuda_events_rank_2.jsonl.gz",
                                               "a/cuda_events_rank_10.jsonl",
                                               "a/b/cuda_events_rank_1.jsonl",
                                               "a-b/cuda_events_rank_0.jsonl",
                                               "b/merged.jsonl",
                                               "b/other.jsonl",
                                               "b/cuda_events_rank_0.jsonl"};
    for (auto name = in_order.rbegin(); name != in_order.rend(); ++name) {
        std::filesystem::create_directories((top / *name).parent_path());
        std::ofstream(top / *name) << "{}";
        // Written in several ways, a folder is the same one.
        std::string path = top / *name;
        if (arguments.size() % 2 == 1) path.insert(path.rfind('/'), "/");
        arguments.push_back(path);
    }
    const InputSet set = find_inputs(arguments, "");
    std::filesystem::remove_all(top);
    std::vector<std::string> found;
    for (const InputFile& file : set.files)
        found.push_back(std::filesystem::path(file.path).lexically_normal().lexically_relative(top.lexically_normal()));
    EXPECT_EQ(found, in_order);
}

TEST(FindInputs, TakesStandardInputOnce) {
    EXPECT_TRUE(find_inputs({"-"}, "").files.front().is_standard_input());
    EXPECT_THROW(static_cast<void>(find_inputs({"-", "-"}, "")), UsageError);
    EXPECT_THROW(static_cast<void>(find_inputs({"-"}, "-")), UsageError);
}

}  // namespace
}  // namespace cep::tool
