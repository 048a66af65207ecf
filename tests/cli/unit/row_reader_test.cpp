// SPDX-License-Identifier: Apache-2.0
#include "read/row_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "base/text.hpp"
#include "reader_and_parser.hpp"

namespace cep::tool {
namespace {

using Outcome = ReaderAndParser::Outcome;

const std::vector<std::string> plain_rows = {
    R"({"name":"forward","step":100,"rank":3,"duration_ms":12.345678,"start_ns":1763700000123456789,"host_ms":0.412000,)"
    R"("lag_ms":0.105000,"kind":"compute","clock":"gpu","seq":0,"depth":1,"device":3,"stream":1})",
    R"({"name":"all_reduce","step":100,"rank":3,"duration_ms":4.000001,"start_ns":1763700000123456789,"host_ms":1.5,)"
    R"("lag_ms":-0.105000,"kind":"comm","clock":"gpu","seq":12,"depth":1,"device":3,"stream":17,"bytes":268435456,)"
    R"("flops":1234567890123,"group":"dp","coll":17,"error":"x","meta":{"a":[1,2.5,{"b":null}],"c":"d","e":true}})",
    R"({"duration_ms":3.0281927381278127,"name":"data_load","rank":0,"step":7})",
    R"({"duration_ms": 0.30000000000000004, "name": "backward", "rank": 15, "step": 123456789})",
    R"({"type":"counter","name":"memory","step":5,"rank":1,"value":81920,"start_ns":1763700000123456789})",
    R"({"type":"mark","name":"checkpoint","step":5,"rank":1,"start_ns":1763700000123456789,"meta":{"path":"/x"}})",
    R"({"name":"vorwärts","step":-4,"rank":0,"duration_ms":0,"start_ns":null,"lag_ms":null,"kind":null,"clock":null})",
    R"({"type":"counter","name":"loss","step":5,"rank":1,"value":-2.718281828459045e-05,"start_ns":1763700000123456789})",
    R"({"name":"","step":9223372036854775807,"rank":0,"duration_ms":1e2,"kind":"new","clock":"external","elapsed_ms":1})",
};

TEST(RowReader, ReadsPlainRowsAsTheParserDoes) {
    ReaderAndParser both;
    for (int round = 0; round < 3; ++round)
        for (const std::string& row : plain_rows) EXPECT_EQ(both.read(row), Outcome::same) << row;
}

TEST(RowReader, LeavesWhatIsUnusualToTheParser) {
    for (const char* row : {
             R"({"type":"run","rank":0})",
             R"({"type":"stats","rank":0})",
             R"({"type":"later"})",
             R"({"name":"f","step":1,"rank":0,"duration_ms":1,"type":"counter"})",
             R"({"name":"f\u0041","step":1,"rank":0,"duration_ms":1})",
             R"({"name":"f","step":1,"rank":0,"duration_ms":1,"depth":"deep"})",
             R"({"name":"f","step":1,"rank":0,"duration_ms":1,"step":2})",
             R"({"name":"f","step":1,"rank":0,"duration_ms":-1})",
             R"({"name":"f","step":18446744073709551615,"rank":0,"duration_ms":1})",
             R"( {"name":"f","step":1,"rank":0,"duration_ms":1})",
             R"({"name":"f","step":1,"rank":0})",
             "{}",
             "[]",
             "",
             "{",
             "null",
         }) {
        ReaderAndParser both;
        EXPECT_EQ(both.read(row), Outcome::left_to_parser) << row;
    }
}

TEST(RowReader, NumbersAreThoseOfTheParserToTheLastBit) {
    std::mt19937_64 random(5);
    ReaderAndParser both;
    int scanned = 0;
    for (int i = 0; i < 50'000; ++i) {
        std::string number = random() % 8 == 0 ? "-" : "";
        number += std::to_string(random() >> (random() % 64));
        if (random() % 4 != 0) {
            number += '.' + std::string(random() % 4, '0') + std::to_string(random() >> (random() % 64));
            number.resize(number.size() - random() % 3);
        }
        if (random() % 8 == 0) number += (random() % 2 == 0 ? "e-" : "E+") + std::to_string(random() % 320);
        const std::string row = R"({"name":"f","step":1,"rank":0,"duration_ms":1,"lag_ms":)" + number + R"(,"seq":)" +
                                std::to_string(random() >> (random() % 64)) + R"(,"other":)" + number + "}";
        const Outcome outcome = both.read(row);
        ASSERT_NE(outcome, Outcome::differs) << row;
        scanned += outcome == Outcome::same;
    }
    EXPECT_GT(scanned, 20'000);
}

// Every byte at every place: only those of numbers may be others.
TEST(RowReader, LooksAtEveryByte) {
    ReaderAndParser both;
    const std::string row =
        R"({"name":"forward","step":12,"x":-7.25,"start_ns":1763700000123456789,"rank":0,"duration_ms":2.125,"z":40})";
    const auto is_of_number = [](char byte) {
        return std::string_view("0123456789.-+eE").find(byte) != std::string::npos;
    };
    for (std::size_t at = 0; at < row.size(); ++at)
        for (int value = 0; value < 256; ++value) {
            ASSERT_EQ(both.read(row), Outcome::same);
            std::string changed = row;
            changed[at] = static_cast<char>(value);
            const Outcome outcome = both.scan(changed);
            ASSERT_NE(outcome, Outcome::differs) << changed;
            const bool may_be_read = changed == row || (is_of_number(row[at]) && is_of_number(changed[at]));
            ASSERT_TRUE(may_be_read || outcome == Outcome::left_to_parser) << changed;
        }
}

std::string mutated(std::string row, std::mt19937_64& random) {
    constexpr std::string_view bytes =
        "\"\\{}[]:,.-+eE0019 \t\r\x01\x7f\xc3\xa4\xff"
        "ntaf";
    constexpr std::string_view all_pieces =
        R"(null|true|1e999|01|-0|-0.0|"step":1,|,"type":"mark"|{}|[]|99999999999999999999|"")";
    static const std::vector<std::string_view> pieces = split(all_pieces, '|');
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
        const std::size_t at = random() % (row.size() + 1);
        const std::string one(1, bytes[random() % bytes.size()]);
        const auto change = random() % 5;
        if (change == 0)
            row.insert(at, one);
        else if (change == 1)
            row.erase(at, 1 + random() % 3);
        else if (change == 2)
            row.replace(at, std::min<std::size_t>(1, row.size() - at), one);
        else if (change == 3)
            row.insert(at, pieces[random() % pieces.size()]);
        else
            row.insert(at, plain_rows[random() % plain_rows.size()].substr(0, random() % 60));
    }
    return row;
}

TEST(RowReader, NeverDisagreesWithTheParserOnMutatedRows) {
    std::mt19937_64 random(6);
    ReaderAndParser both;
    int scanned = 0;
    for (int i = 0; i < 100'000; ++i) {
        const std::string row = mutated(plain_rows[random() % plain_rows.size()], random);
        if (row.find('\n') != std::string::npos) continue;
        const Outcome outcome = both.read(row);
        ASSERT_NE(outcome, Outcome::differs) << row;
        scanned += outcome == Outcome::same;
    }
    EXPECT_GT(scanned, 2'000);
}

// What is the same in row after row is taken for literal text.
TEST(RowReader, ANumberThatRarelyChangesIsThatOfEachRow) {
    std::mt19937_64 random(8);
    ReaderAndParser both;
    int rank = 0;
    int seq = 0;
    for (int i = 0; i < 10'000; ++i) {
        if (random() % 100 == 0) rank = static_cast<int>(random() % 16);
        if (random() % 1000 == 0) seq = static_cast<int>(random() % 3) - 1;
        const std::string begin = R"({"name":"a","step":)" + std::to_string(i / 3) + R"(,"rank":)" +
                                  std::to_string(rank) + R"(,"seq":)" + std::to_string(seq);
        // What begins like a row of the template and is none must leave nothing of it behind.
        ASSERT_EQ(both.scan(R"({"name":"a","step":1,"rank":77,"seq":5,"duration_ms":1.5,"device":2,"kind":"x"})"),
                  Outcome::left_to_parser);
        const std::string row = begin + R"(,"duration_ms":)" + std::to_string(random() % 1000) + R"(.25,"device":3})";
        ASSERT_EQ(both.read(row), Outcome::same) << row;
    }
}

/// Numbers at the edges of what a template reads, and what is none.
const std::vector<std::string_view> edge_numbers = split(
    "0|-0|-0.0|0.0|00|01|0.|.5|1e5|1E-5|1e400|-1e400|1e-400|1e+05|1e|1.e5|9999999|99999999|"
    "99999999.5|123456789|9223372036854775807|9223372036854775808|-9223372036854775808|"
    "-9223372036854775809|18446744073709551615|99999999999999999999|1.12345678|1.1234567890123456|"
    "1.12345678901234567|0.30000000000000004|9007199254740993.0|123456.12345678901|12345678.12345678|"
    "1.7976931348623157e308|1.7976931348623159e308|5e-324|2e-324|4.9406564584124654e-324|"
    "2.2250738585072011e-308|-1|007|1.5|-0.25|12.3456789|1e3|1.500000e-05|-||null|12345678|1234567|"
    "12345678.5|1 | 1|1.12345|true|\"1\"|01.500000|-.500000|1763700000123456789|0763700000123456789|"
    "9999999999999999999|-1763700000123456789|176370000012345678|17637000001234567890",
    '|');

TEST(RowReader, NumbersAtTheEdgesAreThoseOfTheParser) {
    ReaderAndParser both;
    int scanned = 0;
    for (const std::string_view number : edge_numbers) {
        for (const char* key : {"duration_ms", "start_ns", "lag_ms", "other"}) {
            std::string row = R"({"name":"f","step":1,"rank":0,)";
            if (std::string_view(key) != "duration_ms") row += R"("duration_ms":1,)";
            row += '"' + std::string(key) + "\":" + std::string(number) + "}";
            const Outcome outcome = both.read(row);
            EXPECT_NE(outcome, Outcome::differs) << row;
            scanned += outcome == Outcome::same;
        }
    }
    EXPECT_GT(scanned, 50);
    EXPECT_EQ(both.read(R"({"name":"f","step":01,"rank":0,"duration_ms":1})"), Outcome::left_to_parser);
    EXPECT_EQ(both.read(R"({"name":"f","step":1,"rank":0,"duration_ms":1e400})"), Outcome::left_to_parser);
}

std::string row_with(const std::string& name, const std::vector<std::string>& numbers) {
    return R"({"name":")" + name + R"(","step":)" + numbers[0] + R"(,"rank":)" + numbers[1] + R"(,"duration_ms":)" +
           numbers[2] + R"(,"start_ns":)" + numbers[3] + R"(,"host_ms":)" + numbers[4] + R"(,"lag_ms":)" + numbers[5] +
           R"(,"kind":"comm","clock":"gpu","seq":)" + numbers[6] + R"(,"bytes":)" + numbers[7] +
           R"(,"group":"dp","coll":)" + numbers[8] + "}";
}

// One of them is odd now and then, when the pattern of the rows is known.
TEST(RowReader, ReadsTheNumbersOfAKnownPatternAsTheParserDoes) {
    std::mt19937_64 random(8);
    const auto digits = [&random](std::uint64_t below) { return std::to_string(random() % below); };
    const auto fixed = [&](std::uint64_t below) {
        return (random() % 4 == 0 ? "-" : "") + digits(below) + "." +
               std::to_string(1'000'000 + random() % 1'000'000).substr(1);
    };
    for (int round = 0; round < 300; ++round) {
        ReaderAndParser both;
        int scanned = 0;
        for (int i = 0; i < 100; ++i) {
            std::vector<std::string> numbers = {
                digits(1000),
                "3",
                digits(1000) + ".250000",
                "17637000" + std::to_string(10'000'000'000 + random() % 1'000'000'000).substr(0, 11),
                fixed(9),
                fixed(100'000),
                digits(4),
                "4096",
                digits(1'000'000)};
            if (i >= 10 && random() % 4 == 0)
                numbers[random() % numbers.size()] = std::string(edge_numbers[random() % edge_numbers.size()]);
            const std::string row = row_with(i % 3 == 0 ? "all_reduce" : "all_gather", numbers);
            const Outcome outcome = both.read(row);
            ASSERT_NE(outcome, Outcome::differs) << row;
            scanned += outcome == Outcome::same;
        }
        EXPECT_GT(scanned, 70);
    }
}

TEST(RowReader, ReadsRowsThatAreTooLargeForAPattern) {
    ReaderAndParser both;
    for (int i = 0; i < 8; ++i) {
        std::string many = R"({"name":"a","step":1,"rank":0,"duration_ms":1.5)";
        for (int k = 0; k < 40; ++k) many += ",\"k" + std::to_string(k) + "\":" + std::to_string(k * i);
        ASSERT_NE(both.read(many + "}"), Outcome::differs);
        for (const std::size_t size : {500U, 580U, 590U, 600U, 620U, 640U, 2000U}) {
            const std::string row = R"({"name":"a","step":)" + std::to_string(i) +
                                    R"(,"rank":0,"duration_ms":1.5,"x":")" + std::string(size, 'x') + "\"}";
            ASSERT_EQ(both.read(row), row.size() <= RowTemplate::max_bytes ? Outcome::same : Outcome::left_to_parser);
            ASSERT_NE(both.read(row.substr(0, size)), Outcome::differs);
        }
    }
}

// Patterns are given up for a while where nearly every row has a new one, and are learnt again later.
TEST(RowReader, ReadsRowsThatAllHaveATextOfTheirOwn) {
    ReaderAndParser both;
    int learnt = 0;
    for (int i = 0; i < 70'000; ++i) {
        const std::string row = R"({"name":"a","step":1,"rank":0,"duration_ms":)" + std::to_string(i % 7) +
                                R"(,"text":")" + std::to_string(i * 7919) + "\"}";
        const Outcome outcome = both.read(row);
        ASSERT_NE(outcome, Outcome::differs) << row;
        learnt += outcome == Outcome::same;
    }
    EXPECT_GT(learnt, 2'000);
    EXPECT_LT(learnt, 10'000);
}

TEST(RowReader, ReadsRowsOfMorePatternsThanItLearns) {
    ReaderAndParser both;
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < 1000; ++i) {
            const std::string row =
                R"({"name":"f","k)" + std::to_string(i) + R"(":1,"step":1,"rank":0,"duration_ms":1.5})";
            ASSERT_EQ(both.read(row), Outcome::same) << row;
        }
}

}  // namespace
}  // namespace cep::tool
