// SPDX-License-Identifier: Apache-2.0
//
// Row collector: takes the rows of one file to a sorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "merge/row_sorter.hpp"
#include "read/file_report.hpp"

namespace cep::tool {

class RowCollector {
  public:
    /// `index` is that of the file among the inputs.
    RowCollector(RowSorter& sorter, std::string path, std::size_t index)
        : sorter_(sorter), path_(std::move(path)), index_(static_cast<std::uint32_t>(index)) {}

    /// Where the rows that follow are.
    void begin_block(const BlockLocation& location);
    /// Sets the entry's file and position, and adds it. `text` is inside the block.
    void add(RowEntry& entry, std::string_view text);
    /// Call it after the last row.
    void end();

  private:
    [[nodiscard]] bool copies() const { return *file_ == nullptr; }

    RowSorter& sorter_;
    const std::string path_;
    const std::uint32_t index_;
    BlockLocation block_;
    std::optional<const PlainFile*> file_;  // nullptr: rows are copied; nothing before the first block
    std::optional<RowBatch> batch_;         // nothing before the first row
};

}  // namespace cep::tool
