// SPDX-License-Identifier: Apache-2.0
//
// Row reader: RowParser, with a memory of the rows that it has parsed. Rows of a job look alike, so nearly all are read
// by the template of one before. Both agree on every row to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "read/row.hpp"
#include "read/row_template.hpp"

namespace cep::tool {

/// One a thread. Each row is valid until the next call.
class RowReader {
  public:
    /// Reads the row that begins at `at` if it is like one that was parsed, up to and with its last brace; else returns
    /// nullptr. A NUL must end the bytes, and RowParser::padding_bytes must be readable behind it.
    const Row* scan(const char* at);
    /// Parses one JSON object as RowParser does.
    const Row* parse(std::string_view text);
    [[nodiscard]] const std::string& why() const { return parser_.why(); }

  private:
    static constexpr std::size_t max_templates = 2048;

    const Row* search(const char* at);
    void follow(RowTemplate& found);
    void learn(const Row& row);
    void forget();

    RowParser parser_;
    std::unordered_map<std::uint64_t, std::unique_ptr<RowTemplate>> templates_;  // by shape
    RowTemplate* last_ = nullptr;
    std::uint64_t hits_ = 0;       // since templates were last forgotten
    std::uint32_t rows_idle_ = 0;  // rows that are not learnt
};

}  // namespace cep::tool
