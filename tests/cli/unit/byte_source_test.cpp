// SPDX-License-Identifier: Apache-2.0
#include "read/byte_source.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/failure.hpp"
#include "base/output.hpp"
#include "own_path.hpp"

namespace cep::tool {
namespace {

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

TEST_P(ByteSources, ReadsBackWhatAnOutputWrote) {
    const std::string text = compressible_text();
    Output output(path());
    output.write(text);
    output.close();
    for (const std::size_t block_bytes : {std::size_t{977}, std::size_t{1} << 20}) {
        const auto source = open_source({path(), 0, std::nullopt});
        EXPECT_EQ(read_in_blocks(*source, block_bytes), text);
        EXPECT_EQ(source->damage(), "");
    }
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

TEST_P(ByteSources, EmptyOutputIsAnEmptyInput) {
    Output output(path());
    output.close();
    const auto source = open_source({path(), 0, std::nullopt});
    EXPECT_EQ(read_in_blocks(*source, 10), "");
    EXPECT_EQ(source->damage(), "");
}

std::string format_name(const testing::TestParamInfo<const char*>& parameter) {
    const std::string ending(parameter.param);
    return ending == ".jsonl" ? "plain" : ending.substr(ending.rfind('.') + 1);
}

INSTANTIATE_TEST_SUITE_P(Formats, ByteSources, testing::Values(".jsonl", ".jsonl.gz", ".jsonl.zst"), format_name);

TEST(OpenSource, NamesAFileThatIsNotThere) {
    try {
        static_cast<void>(open_source({"/nowhere/file", 0, std::nullopt}));
        FAIL();
    } catch (const ReadError& error) {
        EXPECT_STREQ(error.what(), "/nowhere/file: No such file or directory");
    }
}

TEST(OutputFile, IsNotThereUntilItIsClosed) {
    const std::string path = own_path("cep-unclosed-output");
    {
        Output output(path);
        output.write("text");
        EXPECT_FALSE(std::ifstream(path).good());
    }
    EXPECT_FALSE(std::ifstream(path).good());
}

}  // namespace
}  // namespace cep::tool
