// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

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

using Ranges = std::map<std::int64_t, std::int64_t>;

TEST(NumberRanges, TheEndsOfTheNumbersDoNotOverflow) {
    NumberRanges numbers = {INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1};
    EXPECT_EQ(numbers.ranges(), (Ranges{{INT64_MIN, INT64_MIN + 1}, {INT64_MAX - 1, INT64_MAX}}));
    numbers.insert(INT64_MIN, INT64_MAX);
    EXPECT_EQ(numbers.ranges().size(), 1U);
    EXPECT_EQ(numbers.size(), UINT64_MAX);
    EXPECT_TRUE(numbers.contains(0));
}

TEST(NumberRanges, AgreesWithASet) {
    std::mt19937_64 bits(1);
    for (int round = 0; round < 200; ++round) {
        NumberRanges numbers;
        NumberRanges others;
        std::set<std::int64_t> expected;
        for (int i = 0; i < 20; ++i) {
            const auto first = static_cast<std::int64_t>(bits() % 60) - 30;
            const auto last = first + static_cast<std::int64_t>(bits() % 6);
            (i % 2 == 0 ? numbers : others).insert(first, last);
            for (std::int64_t number = first; number <= last; ++number) expected.insert(number);
        }
        numbers.merge(others);
        EXPECT_EQ(numbers.numbers(), std::vector<std::int64_t>(expected.begin(), expected.end()));
        EXPECT_EQ(numbers.size(), expected.size());
        for (std::int64_t number = -32; number < 38; ++number)
            EXPECT_EQ(numbers.contains(number), expected.contains(number));
    }
}

TEST(SameText, IsEqualityWhateverTheLengthAndWhereverTheDifference) {
    for (std::size_t size = 0; size < 40; ++size) {
        std::string text(size, 'a');
        for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i);
        const std::string same = text;
        EXPECT_TRUE(same_text(text, same)) << size;
        EXPECT_FALSE(same_text(text, same + 'a')) << size;
        for (std::size_t i = 0; i < size; ++i) {
            std::string other = text;
            other[i] = '\0';
            EXPECT_FALSE(same_text(text, other)) << size << ' ' << i;
            EXPECT_FALSE(same_text(other, text)) << size << ' ' << i;
        }
    }
}

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

TEST(FormatCount, SeparatesThousands) {
    EXPECT_EQ(format_count(0), "0");
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(1000), "1,000");
    EXPECT_EQ(format_count(1234567), "1,234,567");
    EXPECT_EQ(format_integer(-123456), "-123,456");
}

TEST(FormatDuration, TakesTheUnitThatSuitsWithFourDigits) {
    EXPECT_EQ(format_duration_ms(12.3456), "12.35 ms");
    EXPECT_EQ(format_duration_ms(0.0004), "400.0 ns");
    EXPECT_EQ(format_duration_ms(0.4), "400.0 µs");
    EXPECT_EQ(format_duration_ms(1234.5), "1.234 s");
    EXPECT_EQ(format_duration_ms(0), "0.000 ms");
}

TEST(FormatChange, HasOneSignAndTheMinusOfAscii) {
    EXPECT_EQ(format_change_ms(12.3456), "+12.35 ms");
    EXPECT_EQ(format_change_ms(-12.3456), "-12.35 ms");
    EXPECT_EQ(format_change_ms(0), "+0.000 ms");
}

TEST(DurationFormat, KeepsOneUnitForNumbersThatAreCompared) {
    const DurationFormat format(12.5, 800);
    EXPECT_EQ(format(0.5), "0.50 ms");
    EXPECT_EQ(format(12345.678), "12,345.68 ms");
}

TEST(DurationFormat, TakesTheUnitOfTheLargeUnlessTheSmallVanishes) {
    EXPECT_EQ(DurationFormat(0.8914, 101.5)(0.8914), "0.891 ms");
    EXPECT_EQ(DurationFormat(0.8914, 5000)(0.8914), "891.4 µs");
}

TEST(FormatTimes, NamesTheirUnitOnce) {
    EXPECT_EQ(format_times_ms(129.97, 101.42), "130.0 → 101.4 ms");
    EXPECT_EQ(format_times_ms(101.42, 129.97), "101.4 → 130.0 ms");
    EXPECT_EQ(format_times_ms(0.4, 0.8), "400.0 → 800.0 µs");
    EXPECT_EQ(format_times_ms(900, 1500), "0.900 → 1.500 s");
}

TEST(FormatBytes, CountsInThousands) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(999), "999 B");
    EXPECT_EQ(format_bytes(1500), "1.5 kB");
    EXPECT_EQ(format_bytes(1.2e9), "1.2 GB");
}

TEST(FormatRanges, JoinsNeighboursAndStopsInTime) {
    EXPECT_EQ(format_ranges({3, 7, 8, 9, 11, 12}), "3, 7–9, 11, 12");
    EXPECT_EQ(format_ranges({1, 3, 5, 7}, 2), "1, 3 and 2 more");
    EXPECT_EQ(format_ranges({}), "");
}

}  // namespace
}  // namespace cep::tool
