// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <fstream>

namespace cep::test {
namespace {

template <typename Value>
Value value_at(const Row& row, std::string_view pointer) {
    simdjson::dom::parser parser;
    Value value{};
    const auto error = parser.parse(row.text).at_pointer(pointer).get(value);
    EXPECT_EQ(error, simdjson::SUCCESS) << pointer << " of " << row.text;
    return value;
}

std::vector<Row> with_name(std::vector<Row> rows, std::string_view name) {
    std::erase_if(rows, [name](const Row& row) { return row.name() != name; });
    return rows;
}

Row none() {
    return Row("{}");
}

}  // namespace

bool Row::has(std::string_view pointer) const {
    simdjson::dom::parser parser;
    return parser.parse(text).at_pointer(pointer).error() == simdjson::SUCCESS;
}

std::int64_t Row::integer(std::string_view pointer) const {
    return value_at<std::int64_t>(*this, pointer);
}

double Row::number(std::string_view pointer) const {
    return value_at<double>(*this, pointer);
}

std::string Row::string(std::string_view pointer) const {
    simdjson::dom::parser parser;
    std::string_view value;
    EXPECT_EQ(parser.parse(text).at_pointer(pointer).get(value), simdjson::SUCCESS) << pointer << " of " << text;
    return std::string(value);
}

std::int64_t Row::ns(std::string_view pointer) const {
    return std::llround(number(pointer) * 1e6);
}

Rows::Rows(const std::string& path) {
    std::ifstream file(path);
    simdjson::dom::parser parser;
    for (std::string line; std::getline(file, line);) {
        EXPECT_FALSE(file.eof()) << "the last line is cut off: " << line;
        EXPECT_TRUE(parser.parse(line).is_object()) << line;
        rows_.emplace_back(line);
    }
}

std::vector<Row> Rows::of_type(std::string_view type) const {
    std::vector<Row> rows = rows_;
    std::erase_if(rows, [type](const Row& row) { return row.type() != type; });
    return rows;
}

std::vector<Row> Rows::spans(std::string_view name) const {
    return with_name(spans(), name);
}

std::vector<Row> Rows::open(std::string_view name) const {
    return with_name(of_type("open"), name);
}

Row Rows::span(std::string_view name) const {
    const std::vector<Row> rows = spans(name);
    EXPECT_EQ(rows.size(), 1U) << "spans called " << name;
    return rows.empty() ? none() : rows.front();
}

Row Rows::last(std::string_view type) const {
    const std::vector<Row> rows = of_type(type);
    EXPECT_FALSE(rows.empty()) << "no row of type " << type;
    return rows.empty() ? none() : rows.back();
}

}  // namespace cep::test
