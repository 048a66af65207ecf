// SPDX-License-Identifier: Apache-2.0
//
// Open spans: spans that began and, according to the file, never ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "read/row.hpp"

namespace cep::tool {

/// The open spans of one file. A span row ends the open span that it completes.
class OpenSpans {
  public:
    /// Takes an open or a span row.
    void take(const Row& row, std::int64_t attempt, std::uint64_t line) {
        if (row.type == RowType::open) return add(row, attempt, line);
        if (row.type == RowType::span && !spans_.empty()) end(row, attempt);
    }
    /// In the order of their first rows.
    [[nodiscard]] std::vector<OpenSpan> all() const;

  private:
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>;  // rank, step, attempt, name
    struct Entry {
        std::uint64_t first_line = 0;
        double elapsed_ms = 0;
        std::uint64_t line = 0;
    };
    using ByStart = std::map<std::optional<std::int64_t>, Entry>;

    void add(const Row& row, std::int64_t attempt, std::uint64_t line);
    void end(const Row& row, std::int64_t attempt);

    std::map<Key, ByStart> spans_;
};

}  // namespace cep::tool
