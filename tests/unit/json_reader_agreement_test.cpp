// SPDX-License-Identifier: Apache-2.0
//
// The cep command reads rows with simdjson and skips rows that it cannot read. The library writes metadata into rows
// unchanged, so the reader must accept everything that the library accepts.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <array>
#include <string>
#include <string_view>

#include "base/json_text.hpp"
#include "text_mutator.hpp"

namespace {

using cep::json::check_object;

class Reader {
  public:
    bool accepts(std::string_view text) {
        simdjson::dom::object object;
        return parser_.parse(simdjson::padded_string(text)).get(object) == simdjson::SUCCESS;
    }

  private:
    simdjson::dom::parser parser_;
};

/// Texts that only the library refuses: simdjson accepts 1,024 levels, and old versions accept lone low surrogates.
bool is_stricter_on_purpose(std::string_view reason) {
    return reason == "nested too deeply" || reason == "lone surrogate";
}

std::string quoted_bytes(std::string_view text) {
    return testing::PrintToString(std::string(text));
}

void expect_agreement(Reader& reader, const std::string& text) {
    const auto check = check_object(text);
    const bool readable = reader.accepts(text);
    if (check.valid) {
        EXPECT_TRUE(readable) << quoted_bytes(text);
    } else if (!is_stricter_on_purpose(check.reason)) {
        EXPECT_FALSE(readable) << quoted_bytes(text) << ": " << check.reason << " at " << check.offset;
    }
}

const auto values = std::to_array<std::string>(
    {"0", "-0", "1", "-1", "00", "01", "-01", "+1", ".5", "1.", "1.e1", "-", "--1", "1-", "0x10", "1_0",
     // the ends of 64 bits
     "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
     "99999999999999999999", "100000000000000000000", "-9223372036854775808", "-9223372036854775809",
     "-18446744073709551615", "-18446744073709551616", "12345678901234567890123456789",
     // the ends of doubles
     "1e308", "1e309", "-1e309", "1e999", "-1e999", "1E+999", "1e99999999999999999999", "0e999",
     "0e99999999999999999999", "0.0e999", "-0.0e-999", "1e-999", "1e-99999999999999999999", "4.9e-324", "2e-324",
     "2.2250738585072011e-308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308",
     "1.797693134862315807e308", "1.797693134862315808e308", "17976931348623157000e289", "17976931348623159000e289",
     "0.00000000000000000017976931348623157e327", "0.00000000000000000017976931348623159e327",
     "1e00000000000000000000000001", "1e-00000000000000000000000001", "12345678901234567890123456789e0",
     "12345678901234567890123456789.5", "1e", "1e+", "1e-", "1e1.5", "NaN", "Infinity", "-Infinity", "nan", "inf",
     // strings
     R"("\ud800")", R"("\udbff")", R"("\udc00")", R"("\udfff")", R"("\ud83d\ude00")", R"("\uD83D\uDE00")",
     R"("\ud800\ud800")", R"("\ud800\u0041")", R"("\ud800\\udc00")", R"("\ud800udc00")", R"("\ud800\n")",
     R"("\ud800x")", R"("\ude00\ud83d")", R"("\\ud800")", R"("\\\ud800")", R"("\u0000")", R"("\uFFFF")", R"("\u12g4")",
     R"("\u123")", R"("\u")", R"("\U0041")", R"("\x41")", R"("\'")", R"("\)", R"("\"\\\/\b\f\n\r\t")", "\"\n\"",
     "\"\t\"", "\"\x01\"", "\"\x7f\"", "\"\xc3\xa9\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
     "\"\xf4\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xef\xbb\xbf\"", "\"\xe2\x82\"",
     // literals and structure
     "true", "false", "null", "True", "tru", "truex", "nul", "[]", "[1,]", "[,1]", "[1 2]", "[1}", "{}", "{1:2}",
     "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "{\"\\ud800\":1}", "", ",", "1,", "1 //", "\f1"});

TEST(JsonReaderAgreement, HoldsForEachValue) {
    Reader reader;
    for (const std::string& value : values) {
        expect_agreement(reader, "{\"a\":" + value + "}");
        expect_agreement(reader, " {\"a\" : [ " + value + " , 1 ] }\n");
    }
}

TEST(JsonReaderAgreement, HoldsForNumbersOfManyDigits) {
    Reader reader;
    for (const std::size_t zeros : {1U, 17U, 18U, 19U, 20U, 288U, 307U, 308U, 309U, 400U, 1000U}) {
        const std::string many(zeros, '0');
        for (const std::string& mantissa : {"1" + many, "-1" + many + ".5", "0." + many + "1", "0." + many})
            for (const char* exponent : {"", "e-1000", "e-999", "e-400", "e-100", "e0", "e300", "e308", "e1001"})
                expect_agreement(reader, std::string("{\"a\":").append(mantissa).append(exponent).append("}"));
    }
}

TEST(JsonReaderAgreement, HoldsAtTheDepthLimitInsideARow) {
    Reader reader;
    for (std::size_t depth = 60; depth < 70; ++depth) {
        const std::string meta = "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
        expect_agreement(reader, meta);
        if (check_object(meta).valid) {
            EXPECT_TRUE(reader.accepts("{\"meta\":" + meta + "}")) << depth;
        }
    }
}

constexpr std::array<std::string_view, 7> seeds = {
    R"({"a":1,"b":[-2.5e3,0.125,{"c":null}],"d":true})",
    R"({"text":"caf\u00e9 \ud83d\ude00 \"quoted\" \\ \/","é":"日本"})",
    R"({"max":18446744073709551615,"min":-9223372036854775808,"big":1.7976931348623157e308})",
    R"({"tiny":4.9e-324,"long":0.00000000000000000000001234567890123456789,"digits":123456789012345678})",
    R"( { "" : { "" : [ [ ] , { } , "" , false ] } } )",
    R"({"a":"\\ud800","b":"\\\\","c":"\uDBFF\uDFFF"})",
    R"({"dp":0,"model":{"layers":[1,2,3],"lr":1e-4,"betas":[0.9,0.999]},"commit":"0a1b2c"})"};
constexpr std::array<std::string_view, 26> json_pieces = {
    "\\ud800", "\\udc00", "\\u0000", "\\u",  "\\",   "\"",       "{",  "}",           "[",
    "]",       ":",       ",",       "-",    "e",    "E+",       ".",  "0",           "9",
    "99999",   "e308",    "e-999",   "null", "true", "\xc3\xa9", "\n", "\xed\xa0\x80"};

TEST(JsonReaderAgreement, HoldsForMutations) {
    Reader reader;
    cep::test::TextMutator mutator(json_pieces);
    int valid = 0;
    for (int i = 0; i < 300000 && !HasFailure(); ++i) {
        const std::string seed(seeds[mutator.below(seeds.size())]);
        const std::string text = mutator.mutated(seed, 1 + mutator.below(4));
        valid += check_object(text).valid ? 1 : 0;
        expect_agreement(reader, text);
    }
    EXPECT_GT(valid, 30000);
}

}  // namespace
