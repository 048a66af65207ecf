// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/failure.hpp"
#include "base/output.hpp"
#include "own_path.hpp"
#include "read/file_reader.hpp"
#include "rows.hpp"
#include "text_source.hpp"

namespace cep::tool {
namespace {

/// Why the lines of a text, none of which is a row, are skipped, and what ends the reading.
std::string skipped_of(TextSource source, std::size_t block_bytes, std::size_t limit_bytes) {
    struct : RowSink {
        void take(const Row&, RunOfRow, std::uint64_t) override {}
    } sink;
    RowReader reader;
    RunTracker runs;
    Progress progress(0);
    LineValidator lines("file", sink, reader, runs, nullptr);
    ByteWindow window(source, progress, block_bytes, limit_bytes);
    const std::string nuls(RowParser::padding_bytes, '\0');
    try {
        for (bool more = true; more; more = lines.take_lines(window))
            EXPECT_EQ(nuls, std::string(window.end(), nuls.size()));
    } catch (const ReadError& error) {
        lines.report().add_damage(0, error.what());
    }
    std::string reasons;
    for (const Damage& damage : lines.report().damages) reasons += damage.why + "; ";
    return reasons;
}

TEST(LineValidator, LeavesOutALineOverTheLimitAndGoesOn) {
    EXPECT_EQ(skipped_of({"1\n" + std::string(100, 'x') + "\n2\n" + std::string(100, 'y'), 7}, 10, 10),
              "not a JSON object; the line is too long; not a JSON object; cut off in the middle of a row; ");
}

TEST(LineValidator, ALineOfTheLimitIsTooLongAndOneOfLessIsNot) {
    for (const std::size_t block_bytes : {1U, 4U, 9U, 10U, 1000U}) {
        EXPECT_EQ(skipped_of({std::string(9, '1') + "\n", 7}, block_bytes, 10), "not a JSON object; ");
        EXPECT_EQ(skipped_of({std::string(10, '1') + "\n", 7}, block_bytes, 10), "the line is too long; ");
    }
}

TEST(LineValidator, TakesTheLinesBeforeAnErrorAndNotTheOneThatItCuts) {
    EXPECT_EQ(skipped_of({"1\n2\nhalf", 3, true}, 100, 100),
              "not a JSON object; not a JSON object; the disk is gone; ");
}

class ByteSources : public testing::TestWithParam<const char*> {
  protected:
    std::string path() const { return own_path("cep-byte-source") + GetParam(); }
    void TearDown() override { std::remove(path().c_str()); }
};

std::string read_in_blocks(ByteSource& source, std::size_t block_bytes) {
    std::string text;
    std::string block(block_bytes, '\0');
    while (const std::size_t count = source.read(block.data(), block.size())) text.append(block, 0, count);
    return text;
}

std::string compressible_text() {
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += std::to_string(i * 7919) + (i % 3 == 0 ? "\n" : " ");
    return text;
}

TEST_P(ByteSources, CountsTheBytesOfTheFileNotOfItsContents) {
    Output output(path());
    output.write(compressible_text());
    output.close();
    std::ifstream file(path(), std::ios::binary | std::ios::ate);
    const auto source = open_source({path(), 0, std::nullopt});
    read_in_blocks(*source, 4096);
    EXPECT_EQ(source->bytes_taken(), static_cast<std::uint64_t>(file.tellg()));
}

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Bytes that a decoder has ready and had no room for, and those in front of damage, must not get lost.
TEST_P(ByteSources, GivesTheSameBytesOfABrokenStreamForEveryCapacity) {
    Output output(path());
    output.write(std::string(3000, 'x') + compressible_text().substr(0, 100'000) + std::string(3000, 'y'));
    output.close();
    const std::string whole = bytes_of(path());
    for (const std::size_t at : {std::size_t{20}, whole.size() / 3, whole.size() - 30}) {
        std::string damaged = whole;
        damaged.replace(at, 8, 8, '\xff');
        for (const std::string& broken : {whole.substr(0, at), damaged}) {
            std::ofstream(path(), std::ios::binary) << broken;
            const std::string text = read_in_blocks(*open_source({path(), 0, std::nullopt}), 1U << 20);
            for (const std::size_t block_bytes : {1U, 100U, 4095U, 4096U})
                EXPECT_TRUE(read_in_blocks(*open_source({path(), 0, std::nullopt}), block_bytes) == text)
                    << block_bytes;
        }
    }
}

std::string format_name(const testing::TestParamInfo<const char*>& parameter) {
    const std::string ending(parameter.param);
    return ending == ".jsonl" ? "plain" : ending.substr(ending.rfind('.') + 1);
}

INSTANTIATE_TEST_SUITE_P(Formats, ByteSources, testing::Values(".jsonl", ".jsonl.gz", ".jsonl.zst"), format_name);

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

TEST(RowParser, RefusesNumbersOutOfTheirRange) {
    const std::string span = R"({"name":"f","step":1,"rank":0,"duration_ms":1)";
    for (const char* row :
         {R"({"name":"f","step":1,"rank":-1,"duration_ms":1})",
          R"({"name":"f","step":1,"rank":4611686018427387905,"duration_ms":1})", R"({"type":"stats","rank":-1})",
          R"({"type":"run","rank":0,"start_unix_ns":4000000000000000001})",
          R"({"type":"run","rank":0,"world_size":4611686018427387905})",
          R"({"type":"run","rank":0,"config":{"start_step":4611686018427387905}})",
          R"({"type":"run","rank":0,"flops_per_step":0})", R"({"type":"run","rank":0,"hardware_flops_per_step":0.0})",
          R"({"type":"run","rank":0,"peak_flops":-1})", R"({"type":"run","rank":0,"tokens_per_step":1e300})",
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
    EXPECT_NE(ParsedRow(R"({"type":"run","rank":0,"flops_per_step":1e30,"tokens_per_step":5e-324})").get(), nullptr);
}

}  // namespace
}  // namespace cep::tool
