// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

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
