// SPDX-License-Identifier: Apache-2.0
//
// Reads the rows of a rank file for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cep::test {

/// One row. Values are looked up in its text. A missing value, or one of the wrong type, fails the test.
class Row {
  public:
    explicit Row(std::string line) : text(std::move(line)) {}

    /// The value at a JSON pointer ("/dropped/pool").
    [[nodiscard]] bool has(std::string_view pointer) const;
    [[nodiscard]] std::int64_t integer(std::string_view pointer) const;
    [[nodiscard]] double number(std::string_view pointer) const;
    [[nodiscard]] std::string string(std::string_view pointer) const;

    /// The value of a key in milliseconds, as nanoseconds.
    [[nodiscard]] std::int64_t ns(std::string_view pointer) const;
    [[nodiscard]] std::int64_t start_ns() const { return integer("/start_ns"); }
    [[nodiscard]] std::int64_t duration_ns() const { return ns("/duration_ms"); }
    [[nodiscard]] std::int64_t end_ns() const { return start_ns() + duration_ns(); }
    [[nodiscard]] std::string clock() const { return string("/clock"); }
    [[nodiscard]] std::string name() const { return string("/name"); }
    /// The row's type; "span" if it has none.
    [[nodiscard]] std::string type() const { return has("/type") ? string("/type") : "span"; }

    std::string text;
};

class Rows {
  public:
    /// Reads whole lines. A line that is not a JSON object fails the test.
    explicit Rows(const std::string& path);

    [[nodiscard]] std::vector<Row> of_type(std::string_view type) const;
    [[nodiscard]] std::vector<Row> spans() const { return of_type("span"); }
    [[nodiscard]] std::vector<Row> spans(std::string_view name) const;
    [[nodiscard]] std::vector<Row> open(std::string_view name) const;
    /// The only span of that name.
    [[nodiscard]] Row span(std::string_view name) const;
    [[nodiscard]] Row last(std::string_view type) const;
    [[nodiscard]] const std::vector<Row>& all() const { return rows_; }

  private:
    std::vector<Row> rows_;
};

}  // namespace cep::test
