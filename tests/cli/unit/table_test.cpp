// SPDX-License-Identifier: Apache-2.0
#include "show/table.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

Table example() {
    Table table;
    table.add_column("name", Align::left);
    table.add_column("time", Align::right);
    table.add_row({"a|b", "1 µs"});
    table.add_row({"x, \"y\"", "10 ms"});
    return table;
}

TEST(Table, TextAlignsByCharactersNotBytes) {
    EXPECT_EQ(example().text("", ""), "name     time\na|b      1 µs\nx, \"y\"  10 ms\n");
}

TEST(Table, MarkdownEscapesBars) {
    EXPECT_EQ(example().markdown(), "| name | time |\n| :--- | ---: |\n| a\\|b | 1 µs |\n| x, \"y\" | 10 ms |\n");
}

TEST(Table, CsvQuotesCommasAndQuotes) {
    EXPECT_EQ(example().csv(), "name,time\r\na|b,1 µs\r\n\"x, \"\"y\"\"\",10 ms\r\n");
}

}  // namespace
}  // namespace cep::tool
