// SPDX-License-Identifier: Apache-2.0
//
// Reading a file: its rows to a sink, its damage to a report. Files are independent of each other, so that they can
// be read in parallel: a sink and a report belong to one file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/progress.hpp"
#include "read/byte_source.hpp"
#include "read/file_report.hpp"
#include "read/inputs.hpp"
#include "read/row.hpp"
#include "read/row_reader.hpp"
#include "read/run_choice.hpp"

namespace cep::tool {

/// Takes the lines of one file in order.
class LineValidator {
  public:
    /// The sink gets the rows of the selection, or all if it is nullptr.
    LineValidator(const std::string& path, RowSink& sink, RowReader& reader, RunTracker& runs,
                  const FileSelection* selection)
        : sink_(sink), reader_(reader), runs_(runs), selection_(selection) {
        report_.path = path;
    }

    /// Takes those that end in the next bytes of the window. False at the end of its source. Throws ReadError.
    bool take_lines(ByteWindow& window);
    /// Takes a line without its newline. `complete`: it had one. RowParser::padding_bytes must be readable behind it.
    [[gnu::noinline]] void take_line(std::string_view text, bool complete);
    void take_too_long_line(bool complete);
    /// True once so much of the file is damage that further lines are ignored.
    [[nodiscard]] bool gave_up() const { return gave_up_; }

    [[nodiscard]] FileReport& report() { return report_; }

  private:
    void take_rest_of_long_line(ByteWindow& window);
    const char* take_line_at(const char* at, const char* end);
    void give(const Row& row) {
        RunOfRow run;
        if (row.rank) run = runs_.observe(row);
        if (selection_ != nullptr && row.rank && !selection_->has(*row.rank, run.index)) return;
        ++report_.rows;
        ++report_.rows_by_type[static_cast<std::size_t>(row.type)];
        sink_.take(row, run, report_.lines);
    }
    void read_line_with_nuls(std::string_view text, bool complete);
    bool parse(std::string_view text, bool allows_unknown = true);
    void skip_or_salvage(std::string_view text, bool complete);
    void skip(const std::string& why, bool complete);
    void give_up();
    bool salvage(std::string_view text);

    RowSink& sink_;
    RowReader& reader_;
    RunTracker& runs_;
    const FileSelection* selection_;
    FileReport report_;
    std::uint64_t damaged_bytes_ = 0;
    bool is_in_long_line_ = false;  // which has more bytes than a window may
    bool gave_up_ = false;
};

/// A file, who takes its rows, and which ones.
struct FileTask {
    const InputFile& file;
    RowSink& sink;
    RunTracker& runs;                // gets all of its rows
    const FileSelection* selection;  // nullptr: all
};

/// Reads the file to its end, or until it is abandoned. Damage in it is reported, never thrown; exceptions of the sink
/// are thrown on. The reader may have read other files.
[[nodiscard]] FileReport read_file(const FileTask& task, RowReader& reader, Progress& progress,
                                   const std::atomic<bool>& abandoned,
                                   std::size_t block_bytes = ByteWindow::default_block_bytes,
                                   std::size_t line_limit_bytes = ByteWindow::default_limit_bytes);

}  // namespace cep::tool
