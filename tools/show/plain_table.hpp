// SPDX-License-Identifier: Apache-2.0
//
// Tables, as aligned text, GitHub Markdown or CSV (RFC 4180).
#pragma once

#include "show/table.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cep::tool {

class PlainTable {
  public:
    void add_column(std::string heading, Align align);
    /// One cell a column.
    void add_row(std::vector<std::string> cells);

    /// `bold` and `plain` are put round the heading line (terminal codes, or "").
    [[nodiscard]] std::string text(std::string_view bold, std::string_view plain) const;
    [[nodiscard]] std::string markdown() const;
    [[nodiscard]] std::string csv() const;

  private:
    [[nodiscard]] std::vector<std::size_t> widths() const;

    std::vector<std::string> headings_;
    std::vector<Align> aligns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace cep::tool
