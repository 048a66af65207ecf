// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

TEST(DisplayWidth, CountsColumns) {
    EXPECT_EQ(display_width(""), 0U);
    EXPECT_EQ(display_width("forward"), 7U);
    EXPECT_EQ(display_width("µs–é"), 4U);
    EXPECT_EQ(display_width("节点1"), 5U);
    EXPECT_EQ(display_width("e\u0301"), 1U) << "a combining accent";
    EXPECT_EQ(display_width("🚀"), 2U);
    EXPECT_EQ(display_width("░▒▓█▁"), 5U);
}

TEST(DisplayWidth, BytesThatAreNoUtf8TakeAColumnEach) {
    EXPECT_EQ(display_width("\xff\xfe"
                            "a"),
              3U);
}

TEST(CutToWidth, KeepsWhatFits) {
    EXPECT_EQ(cut_to_width("forward", 7, "~"), "forward");
    EXPECT_EQ(cut_to_width("节点", 4, "~"), "节点");
    EXPECT_EQ(cut_to_width("", 0, "~"), "");
}

TEST(CutToWidth, EndsWithItsMark) {
    EXPECT_EQ(cut_to_width("forward", 6, "~"), "forwa~");
    EXPECT_EQ(cut_to_width("forward", 1, "…"), "…");
    EXPECT_EQ(cut_to_width("forward", 0, "~"), "");
}

TEST(CutToWidth, DoesNotCutACharacterInTwo) {
    EXPECT_EQ(cut_to_width("节点节点", 6, "~"), "节点~");
    EXPECT_EQ(cut_to_width("节点节点", 5, "~"), "节点~");
    EXPECT_EQ(cut_to_width("节点节点", 4, "~"), "节~");
    EXPECT_EQ(cut_to_width("e\u0301e\u0301e\u0301", 2, "~"), "e\u0301~");
}

}  // namespace
}  // namespace cep::tool
