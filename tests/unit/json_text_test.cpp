// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace {

using cep::json::check_object;

class ValidObject : public testing::TestWithParam<const char*> {};
TEST_P(ValidObject, IsAccepted) {
    const auto check = check_object(GetParam());
    EXPECT_TRUE(check.valid) << check.reason << " at " << check.offset;
}
INSTANTIATE_TEST_SUITE_P(Texts, ValidObject,
                         testing::Values("{}", " \t\r\n{ } \n", R"({"a":1})", R"({"a":-0.5e+10,"b":0,"c":-0})",
                                         R"({"a":[],"b":[1,"x",null,true,false,{}]})", R"({"":{"":{"":0}}})",
                                         R"({"a":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"})", "{\"é\":\"日本\U0001F600\"}",
                                         R"({"a":1,"a":2})", R"({"a":[-9223372036854775808,18446744073709551615]})",
                                         R"({"a":12345678901234567890123456789.0})", R"({"a":[1e308,0e999,1e-999]})"));

class InvalidObject : public testing::TestWithParam<const char*> {};
TEST_P(InvalidObject, IsRefusedWithAReason) {
    const auto check = check_object(GetParam());
    EXPECT_FALSE(check.valid);
    EXPECT_STRNE(check.reason, "");
}
INSTANTIATE_TEST_SUITE_P(Texts, InvalidObject,
                         testing::Values("", " ", "[]", "1", "null", "{", "}", R"({"a")", R"({"a":)", R"({"a":1)",
                                         R"({"a":1,})", R"({,})", R"({a:1})", R"({'a':1})", R"({"a":01})",
                                         R"({"a":+1})", R"({"a":.5})", R"({"a":1.})", R"({"a":1e})", R"({"a":NaN})",
                                         R"({"a":Infinity})", R"({"a":tru})", R"({"a":"\x"})", R"({"a":"\u12g4"})",
                                         "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\xaf\"}",
                                         "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xf5\x80\x80\x80\"}",
                                         "{\"a\":\"\xe2\x82\"}", R"({} {})", R"({}x)", R"({"a":[1,]})",
                                         R"({"a":[1 2]})", R"({"a":"b)", R"({"a":18446744073709551616})",
                                         R"({"a":-9223372036854775809})", R"({"a":1e309})", R"({"a":-0.1e310})",
                                         R"({"a":"\ud800"})", R"({"a":"\ude00\ud83d"})", R"({"\udfff":1})"));

TEST(JsonText, ListsMembersAsTheirTexts) {
    std::vector<std::pair<std::string, std::string>> members;
    cep::json::for_each_member(" { \"a\" : 1.50 , \"b\\n\":{\"c\":[2]},\"d\":\"}\" } ",
                               [&](std::string_view key, std::string_view value) { members.emplace_back(key, value); });
    const std::vector<std::pair<std::string, std::string>> expected = {
        {"\"a\"", "1.50"}, {"\"b\\n\"", "{\"c\":[2]}"}, {"\"d\"", "\"}\""}};
    EXPECT_EQ(members, expected);
}

TEST(JsonText, SaysWhereANumberOrASurrogateStartsThatItRefuses) {
    EXPECT_EQ(check_object(R"({"a":1e999})").offset, 5U);
    EXPECT_EQ(check_object(R"({"a":18446744073709551616})").offset, 5U);
    EXPECT_EQ(check_object(R"({"a":"x\ud800"})").offset, 7U);
    EXPECT_EQ(check_object(R"({"a":"x\ud800\u0041"})").offset, 7U);
}

TEST(JsonText, WritesAnyBytesAsAValidString) {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    std::string out = "{";
    cep::json::append_string(out, all);
    out += ":1}";
    EXPECT_TRUE(check_object(out).valid);
    std::string quoted;
    cep::json::append_string(quoted, "a\"b\\c\n\xff é");
    EXPECT_EQ(quoted, "\"a\\\"b\\\\c\\u000a\xEF\xBF\xBD é\"");
}

TEST(JsonText, PlainTextHasNoControlCharacters) {
    EXPECT_TRUE(cep::json::is_plain_text("all reduce / é"));
    EXPECT_FALSE(cep::json::is_plain_text("a\nb"));
    EXPECT_FALSE(cep::json::is_plain_text("a\x7f"));
    EXPECT_FALSE(cep::json::is_plain_text("\xc2\x80"));
    EXPECT_FALSE(cep::json::is_plain_text("a\xc2\x9f"));
    EXPECT_TRUE(cep::json::is_plain_text("\xc2\xa0"));
    EXPECT_FALSE(cep::json::is_plain_text("\xff"));
}

}  // namespace
