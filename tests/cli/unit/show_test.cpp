// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "show/json_writer.hpp"
#include "show/table.hpp"

namespace cep::tool {
namespace {

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

Table example() {
    Table table({{.key = "name", .heading = "name", .align = Align::left},
                 {.key = "time_ms", .heading = "time", .unit = "ms"},
                 {.key = "ranks", .heading = ""},
                 {.key = "", .heading = "note"}});
    table.add({{"a|b", "a|b"}, {0.001, "1 µs"}, {std::uint64_t{1234}, "1,234"}, {{}, "x"}});
    table.add({{"x, \"y\"", "x, \"y\""}, {10.0, "10 ms"}, {}, {{}, ""}});
    return table;
}

TEST(Table, TextAlignsByCharactersNotBytes) {
    EXPECT_EQ(example().text(0, {}), "name     time  note\na|b      1 µs     x\nx, \"y\"  10 ms\n");
}

TEST(Table, TextSaysHowManyLinesTheLimitHides) {
    Table table = example();
    table.set_rest("kernel", "with less time");
    EXPECT_EQ(table.text(1, {}),
              "name  time  note\na|b   1 µs     x\n… 1 kernel with less time not shown; --limit 0 shows all\n");
}

TEST(Table, PeopleSeeTheLinesInTheirOwnOrder) {
    Table table = example();
    table.set_order({1, 0});
    EXPECT_EQ(table.text(1, {}), "name     time  note\nx, \"y\"  10 ms\n… 1 line not shown; --limit 0 shows all\n");
    EXPECT_TRUE(table.csv().find("a|b") < table.csv().find("x,")) << "programs see them as they were added";
}

TEST(Table, MarkdownEscapesBarsAndHtml) {
    Table table = example();
    table.add({{"<b>&", "<b>&"}, {}, {}, {{}, ""}});
    EXPECT_EQ(table.markdown(0),
              "| name | time | note |\n| :--- | ---: | ---: |\n| a\\|b | 1 µs | x |\n| x, \"y\" | 10 ms |  |\n"
              "| &lt;b&gt;&amp; | - |  |\n");
}

TEST(Table, CsvCellsAreNoFormulas) {
    Table table(std::vector<Column>{{.key = "name", .heading = ""}, {.key = "change", .heading = ""}});
    for (const char* name : {"=1+1", "+1", "-1", "@x", "\tx", "a=1"}) table.add({{name, name}, {-0.5, "-0.5"}});
    EXPECT_EQ(table.csv(),
              "name,change\r\n'=1+1,-0.5\r\n'+1,-0.5\r\n'-1,-0.5\r\n'@x,-0.5\r\n'\tx,-0.5\r\na=1,-0.5\r\n");
}

}  // namespace
}  // namespace cep::tool
