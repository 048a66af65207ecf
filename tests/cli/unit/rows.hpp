// SPDX-License-Identifier: Apache-2.0
//
// Rows for tests: JSON text with the padding that a parser needs.
#pragma once

#include <string>
#include <string_view>

#include "read/row.hpp"

namespace cep::tool {

class ParsedRow {
  public:
    explicit ParsedRow(const std::string& json) : text_(json + std::string(RowParser::padding_bytes, '\0')) {
        row_ = parser_.parse(std::string_view(text_).substr(0, json.size()));
    }
    [[nodiscard]] const Row* get() const { return row_; }
    const Row& operator*() const { return *row_; }
    const Row* operator->() const { return row_; }
    [[nodiscard]] const std::string& why() const { return parser_.why(); }

  private:
    std::string text_;
    RowParser parser_;
    const Row* row_ = nullptr;
};

inline std::string span_json(int rank, int step, long long start_ns, const std::string& name = "f") {
    return R"({"name":")" + name + R"(","step":)" + std::to_string(step) + R"(,"rank":)" + std::to_string(rank) +
           R"(,"duration_ms":1.5,"start_ns":)" + std::to_string(start_ns) + "}";
}

}  // namespace cep::tool
