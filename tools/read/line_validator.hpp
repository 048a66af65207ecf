// SPDX-License-Identifier: Apache-2.0
//
// Line validator: reads each line of a file. Rows go to the sink, everything else into the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "read/block_reader.hpp"
#include "read/file_report.hpp"
#include "read/row.hpp"
#include "read/row_reader.hpp"

namespace cep::tool {

/// Takes the lines of one file in order.
class LineValidator {
  public:
    LineValidator(const std::string& path, RowSink& sink, RowReader& reader) : sink_(sink), reader_(reader) {
        report_.path = path;
    }

    /// `descriptor`: of an uncompressed file; else -1.
    void take_block(const Block& block, int descriptor);
    /// Takes a line without its newline. `complete`: it had one. RowParser::padding_bytes must be readable behind it.
    void take_line(std::string_view text, bool complete);
    void take_too_long_line(bool complete);
    /// True once so much of the file is damage that further lines are ignored.
    [[nodiscard]] bool gave_up() const { return gave_up_; }

    [[nodiscard]] FileReport& report() { return report_; }

  private:
    const char* take_line_at(const char* at, const char* end);
    void give(const Row& row) {
        ++report_.rows;
        ++report_.rows_by_type[static_cast<std::size_t>(row.type)];
        sink_.take(row, report_.lines);
    }
    void read_line_with_nuls(std::string_view text, bool complete);
    bool parse(std::string_view text, bool allows_unknown = true);
    void skip_or_salvage(std::string_view text, bool complete);
    void skip(const std::string& why, bool complete);
    void give_up();
    bool salvage(std::string_view text);

    RowSink& sink_;
    RowReader& reader_;
    FileReport report_;
    std::uint64_t damaged_bytes_ = 0;
    bool gave_up_ = false;
};

}  // namespace cep::tool
