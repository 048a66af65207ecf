// SPDX-License-Identifier: Apache-2.0
#include "read/byte_source.hpp"

#include <gtest/gtest.h>

#include "read/row.hpp"
#include "text_source.hpp"

namespace cep::tool {
namespace {

/// What the blocks hold; "too long" stands for a line left out, with "|" behind it where the file ended in it.
std::vector<std::string> blocks_of(const std::string& text, std::size_t block_bytes, std::size_t limit_bytes,
                                   std::size_t piece_bytes = 7) {
    TextSource source(text, piece_bytes);
    BlockReader reader(source, block_bytes, limit_bytes);
    std::vector<std::string> blocks;
    for (Block block; reader.next(block);) {
        const std::string_view padding(block.bytes.data() + block.size, RowParser::padding_bytes);
        EXPECT_EQ(padding, std::string(RowParser::padding_bytes, '\0'));
        blocks.emplace_back(block.too_long ? (block.complete ? "too long" : "too long|") : std::string(block.text()));
    }
    return blocks;
}

TEST(BlockReader, CutsBehindTheLastNewlineThatFits) {
    EXPECT_EQ(blocks_of("ab\ncd\nef\ng", 7, 100), (std::vector<std::string>{"ab\ncd\n", "ef\ng"}));
    EXPECT_EQ(blocks_of("ab\ncd\nef\ng", 100, 100), (std::vector<std::string>{"ab\ncd\nef\ng"}));
    EXPECT_EQ(blocks_of("", 7, 100), std::vector<std::string>{});
}

TEST(BlockReader, LosesNothingWhateverTheSizes) {
    std::string text;
    for (int line = 0; line < 200; ++line) text += std::string(static_cast<std::size_t>(line * 7 % 31), 'x') + "\n";
    text += "the last";
    for (const std::size_t block_bytes : {1U, 2U, 30U, 31U, 32U, 100U, 100'000U})
        for (const std::size_t piece_bytes : {1U, 5U, 1000U}) {
            std::string joined;
            for (const std::string& block : blocks_of(text, block_bytes, 64, piece_bytes)) joined += block;
            EXPECT_EQ(joined, text) << block_bytes;
        }
}

TEST(BlockReader, GrowsForALongLine) {
    const std::string line(5'000'000, 'x');
    const std::vector<std::string> blocks = blocks_of("a\n" + line + "\ny\n", 1000, 10'000'000, 100'000);
    ASSERT_EQ(blocks.size(), 2U);
    EXPECT_TRUE(blocks[1] == line + "\ny\n");
}

TEST(BlockReader, LeavesOutALineOverTheLimitAndGoesOn) {
    const std::string text = "a\n" + std::string(100, 'x') + "\nb\n" + std::string(100, 'y');
    EXPECT_EQ(blocks_of(text, 10, 10), (std::vector<std::string>{"a\n", "too long", "b\n", "too long|"}));
}

TEST(BlockReader, ALineOfTheLimitIsTooLongAndOneOfLessIsNot) {
    for (const std::size_t block_bytes : {1U, 4U, 9U, 10U, 1000U}) {
        EXPECT_EQ(blocks_of(std::string(9, 'x') + "\n", block_bytes, 10),
                  std::vector<std::string>{std::string(9, 'x') + "\n"});
        EXPECT_EQ(blocks_of(std::string(10, 'x') + "\n", block_bytes, 10), std::vector<std::string>{"too long"});
    }
}

TEST(BlockReader, GivesTheLinesBeforeAnErrorAndThenTheError) {
    TextSource source("ab\ncd\nhalf", 3, true);
    BlockReader reader(source, 100);
    Block block;
    ASSERT_TRUE(reader.next(block));
    EXPECT_EQ(block.text(), "ab\ncd\n");
    EXPECT_THROW(reader.next(block), ReadError);
    EXPECT_FALSE(reader.next(block));
}

}  // namespace
}  // namespace cep::tool
