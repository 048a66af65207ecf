// SPDX-License-Identifier: Apache-2.0
#include "read/row_layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace cep::tool {
namespace {

/// A row with one number, and where it goes.
struct OneNumber {
    std::int64_t integer = -7;
    double decimal = -7;

    static std::string row(const std::string& number) { return R"({"some_name":)" + number + R"(,"x":"abc"})"; }

    std::optional<RowLayout> layout(const std::string& number, bool is_integer, bool may_be_negative = true) {
        RowField field{13, static_cast<std::uint32_t>(13 + number.size()), nullptr, nullptr, may_be_negative};
        (is_integer ? static_cast<void>(field.integer = &integer) : static_cast<void>(field.decimal = &decimal));
        return RowLayout::of(row(number), {&field, 1});
    }
};

bool reads(const RowLayout& layout, std::string row) {
    row.resize(RowLayout::readable_bytes(row.size()), '\n');
    return layout.read(row.data());
}

std::string random_digits(std::mt19937_64& random, std::size_t count, bool begin_number = true) {
    std::string digits;
    while (digits.size() < count) digits += static_cast<char>('0' + random() % 10);
    if (begin_number && count > 1 && digits[0] == '0') digits[0] = '1';
    return digits;
}

// Of more than 16 digits those in front are text.
TEST(RowLayout, ReadsIntegersOfAllSizes) {
    std::mt19937_64 random(1);
    for (std::size_t count = 1; count <= 19; ++count) {
        const std::string front(count > 16 ? count - 16 : 0, '7');
        const auto number = [&] { return front + random_digits(random, count - front.size(), front.empty()); };
        OneNumber one;
        const auto layout = one.layout(number(), true);
        ASSERT_TRUE(layout) << count;
        for (int i = 0; i < 1000; ++i) {
            const std::string digits = number();
            ASSERT_TRUE(reads(*layout, OneNumber::row(digits))) << digits;
            ASSERT_EQ(one.integer, std::stoll(digits));
        }
        if (!front.empty()) {
            EXPECT_FALSE(reads(*layout, OneNumber::row("8" + number().substr(1))));
        }
    }
}

TEST(RowLayout, HasNoPlaceForIntegersThatMayBeTooLarge) {
    EXPECT_TRUE(OneNumber().layout("9219999999999999999", true));
    EXPECT_FALSE(OneNumber().layout("9220000000000000000", true));
    EXPECT_FALSE(OneNumber().layout("10000000000000000000", true));
}

TEST(RowLayout, HasNoPlaceForNumbersThatMayExceedTheirLimit) {
    std::int64_t integer = 0;
    double decimal = 0;
    const auto has_layout = [](const std::string& number, RowField field, double max) {
        field.begin = 13;
        field.end = static_cast<std::uint32_t>(13 + number.size());
        field.max = max;
        return RowLayout::of(OneNumber::row(number), {&field, 1}).has_value();
    };
    const RowField of_integer{0, 0, &integer, nullptr, true};
    const RowField of_decimal{0, 0, nullptr, &decimal, true};
    EXPECT_TRUE(has_layout("1", of_integer, 10));
    EXPECT_FALSE(has_layout("1", of_integer, 8));
    EXPECT_TRUE(has_layout("3990000000000000001", of_integer, 4e18));
    EXPECT_FALSE(has_layout("4000000000000000001", of_integer, 4e18));
    EXPECT_TRUE(has_layout("12.5", of_decimal, 100));
    EXPECT_FALSE(has_layout("12.5", of_decimal, 99));
    EXPECT_FALSE(has_layout("-12.5", of_decimal, 99));
}

TEST(RowLayout, ReadsDecimalsToTheLastBit) {
    std::mt19937_64 random(2);
    for (std::size_t whole = 1; whole <= 8; ++whole)
        for (std::size_t decimals = 0; decimals <= 7; ++decimals)
            for (const std::string sign : {"", "-"}) {
                const auto number = [&] {
                    const std::string digits = sign + random_digits(random, whole);
                    if (decimals == 0) return digits;
                    return digits + "." + std::to_string(10'000'000 + random() % 10'000'000).substr(1, decimals);
                };
                OneNumber one;
                const auto layout = one.layout(number(), false);
                ASSERT_EQ(layout.has_value(), decimals > 0 || sign.empty());
                for (int i = 0; layout && i < 100; ++i) {
                    const std::string text = number();
                    ASSERT_TRUE(reads(*layout, OneNumber::row(text))) << text;
                    const double expected = std::strtod(text.c_str(), nullptr);
                    ASSERT_EQ(std::bit_cast<std::uint64_t>(one.decimal), std::bit_cast<std::uint64_t>(expected))
                        << text;
                }
            }
}

TEST(RowLayout, ReadsDecimalsOfManyDigitsToTheLastBit) {
    std::mt19937_64 random(4);
    for (const std::size_t whole : {1U, 2U, 9U, 15U})
        for (const std::size_t decimals : {1U, 8U, 16U, 17U, 32U})
            for (const std::string sign : {"", "-"}) {
                const auto number = [&] {
                    return sign + random_digits(random, whole) + "." + random_digits(random, decimals, false);
                };
                OneNumber one;
                const auto layout = one.layout(number(), false);
                ASSERT_TRUE(layout);
                for (int i = 0; i < 100; ++i) {
                    const std::string text = number();
                    ASSERT_TRUE(reads(*layout, OneNumber::row(text))) << text;
                    ASSERT_EQ(std::bit_cast<std::uint64_t>(one.decimal),
                              std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)))
                        << text;
                }
            }
}

TEST(RowLayout, ReadsNegativeZero) {
    OneNumber one;
    const auto layout = one.layout("-1.125", false);
    ASSERT_TRUE(layout);
    ASSERT_TRUE(reads(*layout, OneNumber::row("-0.000")));
    EXPECT_EQ(one.decimal, 0);
    EXPECT_TRUE(std::signbit(one.decimal));
}

TEST(RowLayout, HasNoPlaceForNumbersThatAreNotPlain) {
    for (const char* number : {"1e5", "1.5e3", "1234567890123456.5", "12345678901234567", "-5"})
        EXPECT_FALSE(OneNumber().layout(number, false)) << number;
    for (const char* number : {"-5", "1.5", "1e5"}) EXPECT_FALSE(OneNumber().layout(number, true)) << number;
    EXPECT_TRUE(OneNumber().layout("-0.5", false));
    EXPECT_FALSE(OneNumber().layout("-0.5", false, false));
}

TEST(RowLayout, ReadsNothingFromBeforeTheRow) {
    std::int64_t integer = 0;
    for (std::uint32_t digits = 1; digits <= 19; ++digits) {
        const std::string row = "{\"\":" + std::string(digits, '1') + ",\"abcdefgh\":1}";
        const RowField field{4, 4 + digits, &integer, nullptr, true};
        // Of two words of eight digits, both begin in the row.
        const bool words_are_in_row = 4 + digits >= 8 && (digits <= 8 || 4 + digits >= 16);
        EXPECT_EQ(RowLayout::of(row, {&field, 1}).has_value(), words_are_in_row) << row;
    }
}

// Every byte at every place: of all 256, those and no others are let through that the numbers can have there.
TEST(RowLayout, LooksAtEveryByte) {
    const std::string row =
        R"({"name":"forward","step":12,"x":-7.25,"start_ns":1763700000123456789,"y":0,"duration_ms":2.125,"z":40})";
    std::array<std::int64_t, 2> integers{};
    double duration_ms = 0;
    const auto place = [&row](const char* number) { return static_cast<std::uint32_t>(row.find(number)); };
    const auto field = [&](const char* number, std::int64_t* integer, double* decimal) {
        const std::uint32_t begin = place(number);
        return RowField{begin, begin + static_cast<std::uint32_t>(std::string_view(number).size()), integer, decimal,
                        true};
    };
    const std::vector<RowField> fields = {field("12", &integers[0], nullptr), field("-7.25", nullptr, nullptr),
                                          field("1763700000123456789", &integers[1], nullptr),
                                          field("2.125", nullptr, &duration_ms), field("40", nullptr, nullptr)};
    const auto layout = RowLayout::of(row, fields);
    ASSERT_TRUE(layout);
    const auto allowed = [&](std::size_t at, char byte) {
        for (const RowField& number : fields) {
            const bool is_text = number.end - number.begin > 16 && at < number.end - 16;
            if (at < number.begin || at >= number.end || row[at] < '0' || row[at] > '9' || is_text) continue;
            const bool is_first = at == number.begin && row[at + 1] != '.';
            return byte >= (is_first ? '1' : '0') && byte <= '9';
        }
        return byte == row[at];
    };
    for (std::size_t at = 0; at < row.size(); ++at)
        for (int value = 0; value < 256; ++value) {
            std::string changed = row;
            changed[at] = static_cast<char>(value);
            ASSERT_EQ(reads(*layout, changed), allowed(at, changed[at])) << changed;
        }
    ASSERT_TRUE(reads(*layout, row));
    EXPECT_EQ(integers[0], 12);
    EXPECT_EQ(integers[1], 1763700000123456789);
    EXPECT_EQ(duration_ms, 2.125);
}

TEST(RowLayout, DoesNotMindWhatIsBehindTheRow) {
    std::mt19937_64 random(3);
    for (std::size_t size = 20; size < 200; ++size) {
        OneNumber one;
        std::string row = OneNumber::row("123.25");
        row.insert(row.size() - 2, size, 'y');
        const RowField field{13, 19, nullptr, &one.decimal, true};
        const auto layout = RowLayout::of(row, {&field, 1});
        ASSERT_TRUE(layout);
        std::string behind = row;
        while (behind.size() < RowLayout::readable_bytes(row.size())) behind += static_cast<char>(random());
        EXPECT_TRUE(layout->read(behind.data())) << size;
        EXPECT_EQ(one.decimal, 123.25);
    }
}

}  // namespace
}  // namespace cep::tool
