// SPDX-License-Identifier: Apache-2.0
//
// Line validator: reads each line of a file. Rows go to the sink, everything else into the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "read/file_report.hpp"
#include "read/row.hpp"
#include "read/row_reader.hpp"

namespace cep::tool {

/// Takes the lines of one file in order.
class LineValidator {
  public:
    LineValidator(const std::string& path, RowSink& sink) : sink_(sink) { report_.path = path; }

    /// Must come before any line: sets the place of the next lines and the reader that parses them.
    void begin_block(const BlockPlace& place, RowReader& reader) {
        reader_ = &reader;
        sink_.begin_block(place);
    }
    /// Takes a line that was read as a row already.
    void take_row(const Row& row) {
        if (gave_up_) return;
        ++report_.lines;
        give(row);
    }
    /// Takes a line without its newline. `complete`: it had one. RowParser::padding_bytes must be readable behind it.
    void take_line(std::string_view text, bool complete);
    void take_too_long_line(bool complete);
    void take_blank_lines(std::uint32_t count) {
        if (!gave_up_) report_.lines += count;
    }
    /// True once so much of the file is damage that further lines are ignored.
    [[nodiscard]] bool gave_up() const { return gave_up_; }

    [[nodiscard]] FileReport& report() { return report_; }

  private:
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
    RowReader* reader_ = nullptr;  // of the thread whose turn it is
    FileReport report_;
    std::uint64_t damaged_bytes_ = 0;
    bool gave_up_ = false;
};

}  // namespace cep::tool
