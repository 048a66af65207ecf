// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

TEST(Text, WhatATerminalObeysIsReplaced) {
    EXPECT_EQ(printable("a\x1b[1m\nb\x7f µ"), "a?[1m?b? µ");
    EXPECT_EQ(printable("\xc2\x9b"       // C1: CSI
                        "1m \xc2\xa0"),  // U+00A0 is a blank
              "?1m \xc2\xa0");
    for (const char* mark : {"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xaa", "\xe2\x80\xae",
                             "\xe2\x81\xa6", "\xe2\x81\xa9"})
        EXPECT_EQ(printable(mark), "?");
    for (const char* harmless : {"\xe2\x80\x93", "\xe2\x80\xa6", "\xe2\x81\xaa", "\xe2\x80\x90"})
        EXPECT_EQ(printable(harmless), harmless);
}

TEST(Text, BytesThatAreNotUtf8AreReplaced) {
    EXPECT_EQ(printable("a\xff\xc3"), "a\xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_EQ(printable("\xc0\x9b"), "\xef\xbf\xbd\xef\xbf\xbd") << "an overlong form of ESC";
}

TEST(Text, LinesKeepTheirNewlines) {
    EXPECT_EQ(printable_lines("a\nb\r\n"), "a\nb?\n");
}

TEST(Text, SplitGivesOnePartMoreThanSeparators) {
    EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
    EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
    EXPECT_EQ(split("a,", ','), (std::vector<std::string_view>{"a", ""}));
}

}  // namespace
}  // namespace cep::tool
