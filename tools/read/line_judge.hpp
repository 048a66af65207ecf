// SPDX-License-Identifier: Apache-2.0
//
// Line judge: what each line of a file is. Rows go to the sink, everything else into the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "read/file_report.hpp"
#include "read/row.hpp"

namespace cep::tool {

/// Takes the lines of one file in order.
class LineJudge {
  public:
    LineJudge(const std::string& path, RowSink& sink) : sink_(sink) { report_.path = path; }

    /// Lines come from here now, and what no scanner could read of them is read by this parser. Comes before any line.
    void begin_block(const BlockPlace& place, RowParser& parser) {
        parser_ = &parser;
        sink_.begin_block(place);
    }
    /// A line that a scanner read.
    void take_row(const Row& row) {
        ++report_.lines;
        give(row);
    }
    /// A line without its newline; RowParser::padding_bytes must be readable behind it. `complete`: it had a newline.
    void take_line(std::string_view text, bool complete);
    void take_too_long_line(bool complete);

    [[nodiscard]] FileReport& report() { return report_; }

  private:
    void give(const Row& row) {
        ++report_.rows;
        ++report_.rows_by_type[static_cast<std::size_t>(row.type)];
        sink_.take(row, report_.lines);
    }
    void read_line_with_nuls(std::string_view text, bool complete);
    bool parse(std::string_view text);
    bool parse_known(std::string_view text);
    void skip_or_salvage(std::string_view text, bool complete);
    void skip(const std::string& why, bool complete);
    bool salvage(std::string_view text);

    RowSink& sink_;
    RowParser* parser_ = nullptr;  // of the thread whose turn it is
    FileReport report_;
};

}  // namespace cep::tool
