// SPDX-License-Identifier: Apache-2.0
#include "file_reader.hpp"

#include "byte_source.hpp"
#include "failure.hpp"
#include "line_reader.hpp"

namespace cep::analysis {
namespace {

using namespace std::string_view_literals;

constexpr auto byte_order_mark = "\xef\xbb\xbf"sv;
constexpr int max_salvage_tries = 64;

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

class FileReader {
  public:
    FileReader(const InputFile& file, RowSink& sink, Progress& progress)
        : file_(file), sink_(sink), progress_(progress) {
        report_.path = file.path;
    }

    FileReport read() {
        try {
            const std::unique_ptr<ByteSource> source = open_source(file_);
            read_lines(*source);
        } catch (const ReadError& error) {
            report_.unreadable = error.what();
        }
        return std::move(report_);
    }

  private:
    void read_lines(ByteSource& source) {
        LineReader lines(source);
        for (Line line; lines.next(line);) {
            read_line(line);
            report_.lines = line.number;
            progress_.advance(source.bytes_taken() - report_.bytes);
            report_.bytes = source.bytes_taken();
        }
        progress_.advance(source.bytes_taken() - report_.bytes);
        report_.bytes = source.bytes_taken();
        if (source.damage().empty()) return;
        // The last line is then cut off too, but that is the same loss.
        if (!report_.cut_off) report_.add_damage(report_.lines, source.damage());
        report_.cut_off = true;
    }

    void read_line(const Line& line) {
        if (line.too_long) return skip(line, "the line is too long");
        std::string_view text = line.text;
        if (line.number == 1 && text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
        if (text.ends_with('\r')) text.remove_suffix(1);
        if (is_blank(text)) return;
        if (text.front() == '\0' || text.back() == '\0') return read_line_with_nuls(line, text);
        if (!take(text, line.number)) skip_or_salvage(line, text);
    }

    // A machine that went down leaves a block of NULs where the file system had not written yet.
    void read_line_with_nuls(const Line& line, std::string_view text) {
        const std::size_t first = text.find_first_not_of('\0');
        if (first == std::string_view::npos) {
            report_.cut_off |= !line.complete;
            return report_.add_damage(line.number, "NUL bytes instead of rows");
        }
        const std::string_view inner = text.substr(first, text.find_last_not_of('\0') + 1 - first);
        // Parsed text must be followed by bytes that belong to no value, and NULs are that.
        if (!take(inner, line.number)) return skip_or_salvage(line, inner);
        report_.cut_off |= !line.complete && text.back() == '\0';
        report_.add_damage(line.number, first > 0 ? "NUL bytes before a row" : "NUL bytes after a row");
    }

    bool take(std::string_view text, std::uint64_t line) {
        const Row* row = parser_.parse(text);
        if (row == nullptr) return false;
        ++report_.rows;
        ++report_.rows_by_type[static_cast<std::size_t>(row->type)];
        sink_.take(*row, line);
        return true;
    }

    void skip_or_salvage(const Line& line, std::string_view text) {
        const std::string why = parser_.why();
        if (!salvage(line, text)) skip(line, why);
    }

    void skip(const Line& line, const std::string& why) {
        report_.cut_off |= !line.complete;
        report_.skipped_rows += line.complete;
        report_.add_damage(line.number, line.complete ? why : "cut off in the middle of a row");
    }

    // After a crash in the middle of a write, a restarted job appends its first row to the broken line. That row is
    // intact and is kept; only the piece before it is lost.
    bool salvage(const Line& line, std::string_view text) {
        std::size_t at = text.find("{\"", 1);
        for (int tries = 0; at != std::string_view::npos && tries < max_salvage_tries; ++tries) {
            if (take_known(text.substr(at), line.number)) {
                ++report_.skipped_rows;
                report_.add_damage(line.number, "a broken row, with an intact one behind it on the same line");
                return true;
            }
            at = text.find("{\"", at + 1);
        }
        return false;
    }

    bool take_known(std::string_view text, std::uint64_t line) {
        const Row* row = parser_.parse(text);
        return row != nullptr && row->type != RowType::unknown && take(text, line);
    }

    const InputFile& file_;
    RowSink& sink_;
    Progress& progress_;
    RowParser parser_;
    FileReport report_;
};

}  // namespace

FileReport read_file(const InputFile& file, RowSink& sink, Progress& progress) {
    return FileReader(file, sink, progress).read();
}

}  // namespace cep::analysis
