// SPDX-License-Identifier: Apache-2.0
#include "show/table.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

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

TEST(Table, ControlCharactersOfNamesReachNoTerminal) {
    Table table(std::vector<Column>{{.key = "name", .heading = "name", .align = Align::left}});
    const std::string name =
        "a\x1b[31mb\xc2\x9b"
        "c\xe2\x80\xae"
        "d\xff";
    table.add(std::vector<Cell>{{name, name}});
    EXPECT_EQ(table.text(0, {}), "name\na?[31mb?c?d\xef\xbf\xbd\n");
}

TEST(Table, MarkdownEscapesBarsAndHtml) {
    Table table = example();
    table.add({{"<b>&", "<b>&"}, {}, {}, {{}, ""}});
    EXPECT_EQ(table.markdown(0),
              "| name | time | note |\n| :--- | ---: | ---: |\n| a\\|b | 1 µs | x |\n| x, \"y\" | 10 ms |  |\n"
              "| &lt;b&gt;&amp; | - |  |\n");
}

TEST(Table, CsvHasTheValuesAndQuotesCommasAndQuotes) {
    EXPECT_EQ(example().csv(), "name,time_ms,ranks\r\na|b,0.001,1234\r\n\"x, \"\"y\"\"\",10,\r\n");
}

TEST(Table, CsvCellsAreNoFormulas) {
    Table table(std::vector<Column>{{.key = "name", .heading = ""}, {.key = "change", .heading = ""}});
    for (const char* name : {"=1+1", "+1", "-1", "@x", "\tx", "a=1"}) table.add({{name, name}, {-0.5, "-0.5"}});
    EXPECT_EQ(table.csv(),
              "name,change\r\n'=1+1,-0.5\r\n'+1,-0.5\r\n'-1,-0.5\r\n'@x,-0.5\r\n'\tx,-0.5\r\na=1,-0.5\r\n");
}

}  // namespace
}  // namespace cep::tool
