// SPDX-License-Identifier: Apache-2.0
//
// The rows of a rank file as a test asks for them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cep::test {

/// One row. Its values are looked up in its text; a missing one, or one of another type, is a test failure.
class Row {
  public:
    explicit Row(std::string line) : text(std::move(line)) {}

    /// Values by a JSON pointer ("/dropped/pool").
    [[nodiscard]] bool has(std::string_view pointer) const;
    [[nodiscard]] std::int64_t integer(std::string_view pointer) const;
    [[nodiscard]] double number(std::string_view pointer) const;
    [[nodiscard]] std::string string(std::string_view pointer) const;

    /// Of a key that holds milliseconds.
    [[nodiscard]] std::int64_t ns(std::string_view pointer) const;
    [[nodiscard]] std::int64_t start_ns() const { return integer("/start_ns"); }
    [[nodiscard]] std::int64_t duration_ns() const { return ns("/duration_ms"); }
    [[nodiscard]] std::int64_t end_ns() const { return start_ns() + duration_ns(); }
    [[nodiscard]] std::string clock() const { return string("/clock"); }
    [[nodiscard]] std::string name() const { return string("/name"); }
    /// "span" where there is none.
    [[nodiscard]] std::string type() const { return has("/type") ? string("/type") : "span"; }

    std::string text;
};

class Rows {
  public:
    /// Reads whole lines; a line that is not a JSON object is a test failure.
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
