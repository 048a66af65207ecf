// SPDX-License-Identifier: Apache-2.0
#include "show/json_writer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cep::tool {
namespace {

TEST(JsonWriter, NestsObjectsAndArrays) {
    JsonWriter json;
    json.begin_object();
    json.key("a").begin_array().value(1).begin_object().end_object().end_array();
    json.key("b").null();
    json.end_object();
    EXPECT_EQ(json.finish(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": null\n}\n");
}

TEST(JsonWriter, EscapesWhatJsonDoesNotAllowInStrings) {
    JsonWriter json;
    json.string("a\"b\\c\n\x01 µ");
    EXPECT_EQ(json.finish(), "\"a\\\"b\\\\c\\u000a\\u0001 µ\"\n");
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
    JsonWriter json;
    json.string(
        "a\xff"
        "b\xc3");
    EXPECT_EQ(json.finish(),
              "\"a\xef\xbf\xbd"
              "b\xef\xbf\xbd\"\n");
}

TEST(JsonWriter, WritesNumbersExactlyAndNotANumberAsNull) {
    JsonWriter json;
    json.begin_array().value(0.1).value(INT64_MIN).value(UINT64_MAX);
    json.value(std::numeric_limits<double>::quiet_NaN()).end_array();
    EXPECT_EQ(json.finish(), "[\n  0.1,\n  -9223372036854775808,\n  18446744073709551615,\n  null\n]\n");
}

TEST(JsonWriter, WritesMembersOfAnyTypeAndNullForWhatIsMissing) {
    JsonWriter json;
    json.begin_object();
    json.members("a", 1, "b", std::vector<std::string>{"x"}, "c", text_or_null(""), "d", text_or_null("y"));
    json.object_or_null("e", std::optional(true), [&json](bool value) { json.members("f", value); });
    json.object_or_null("g", std::optional<bool>(), [&json](bool value) { json.members("f", value); });
    json.end_object();
    EXPECT_EQ(json.finish(),
              "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ],\n  \"c\": null,\n  \"d\": \"y\",\n"
              "  \"e\": {\n    \"f\": true\n  },\n  \"g\": null\n}\n");
}

}  // namespace
}  // namespace cep::tool
