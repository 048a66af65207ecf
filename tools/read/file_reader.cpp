// SPDX-License-Identifier: Apache-2.0
#include "read/file_reader.hpp"

#include <fmt/core.h>

#include <cstring>
#include <memory>
#include <utility>

#include "base/failure.hpp"

namespace cep::tool {
namespace {

using namespace std::string_view_literals;

constexpr auto byte_order_mark = "\xef\xbb\xbf"sv;
constexpr int max_salvage_tries = 64;
constexpr std::uint64_t max_damages = 1'000'000;  // rank files have few
constexpr std::uint64_t max_damaged_bytes = std::uint64_t{128} << 20;

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

bool LineValidator::take_lines(ByteWindow& window) {
    is_in_long_line_ |= !window.extend() && !window.ended();
    if (is_in_long_line_) {
        take_rest_of_long_line(window);
    } else {
        const std::size_t size = window.ended() ? window.text().size() : window.text().rfind('\n') + 1;
        for (const char* const end = window.at + size; window.at < end && !gave_up_;)
            window.at = take_line_at(window.at, end);
    }
    return !window.ended();
}

void LineValidator::take_rest_of_long_line(ByteWindow& window) {
    const std::size_t newline = window.text().find('\n');
    const bool complete = newline != std::string_view::npos;
    window.at = complete ? window.at + newline + 1 : window.end();
    is_in_long_line_ = !complete;
    if (complete || window.ended()) take_too_long_line(complete);
}

// Where the next line begins. Flattened, as calls for each row take time.
[[gnu::flatten]] const char* LineValidator::take_line_at(const char* at, const char* end) {
    if (const Row* const row = *at == '{' ? reader_.scan(at) : nullptr; row != nullptr) {
        const char* behind = row->text.data() + row->text.size();
        behind += *behind == '\r';
        if (*behind == '\n') {
            ++report_.lines;
            give(*row);
            return behind + 1;
        }
    }
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    const bool complete = newline != nullptr;
    const char* const line_end = complete ? newline : end;
    take_line({at, static_cast<std::size_t>(line_end - at)}, complete);
    return line_end + complete;
}

void LineValidator::take_line(std::string_view text, bool complete) {
    if (gave_up_) return;
    ++report_.lines;
    if (report_.lines == 1 && text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (is_blank(text)) return;
    if (text.front() == '\0' || text.back() == '\0') return read_line_with_nuls(text, complete);
    if (!parse(text)) skip_or_salvage(text, complete);
    if (report_.damage_count > max_damages || damaged_bytes_ > max_damaged_bytes) give_up();
}

void LineValidator::give_up() {
    gave_up_ = true;
    report_.cut_off = true;
    report_.add_damage(report_.lines, "too much damage: the rest of the file is not read");
}

void LineValidator::take_too_long_line(bool complete) {
    ++report_.lines;
    skip("the line is too long", complete);
}

// After a machine crashed, a block of NULs can stand where the file system had not written yet.
void LineValidator::read_line_with_nuls(std::string_view text, bool complete) {
    const std::size_t first = text.find_first_not_of('\0');
    if (first == std::string_view::npos) {
        report_.cut_off |= !complete;
        return report_.add_damage(report_.lines, "NUL bytes instead of rows");
    }
    const std::string_view inner = text.substr(first, text.find_last_not_of('\0') + 1 - first);
    // The parser needs padding behind a text that is no part of a value: NULs are.
    if (!parse(inner)) return skip_or_salvage(inner, complete);
    report_.cut_off |= !complete && text.back() == '\0';
    report_.add_damage(report_.lines, first > 0 ? "NUL bytes before a row" : "NUL bytes after a row");
}

bool LineValidator::parse(std::string_view text, bool allows_unknown) {
    const Row* row = reader_.parse(text);
    if (row == nullptr || (row->type == RowType::unknown && !allows_unknown)) return false;
    give(*row);
    return true;
}

void LineValidator::skip_or_salvage(std::string_view text, bool complete) {
    damaged_bytes_ += text.size();
    const std::string why = reader_.why();
    if (!salvage(text)) skip(why, complete);
}

void LineValidator::skip(const std::string& why, bool complete) {
    report_.cut_off |= !complete;
    report_.skipped_rows += complete;
    report_.add_damage(report_.lines, complete ? why : "cut off in the middle of a row");
}

// After a crash in the middle of a write, a restarted job appends its first row to the broken line. That row is
// intact and is kept; only the piece before it is lost.
bool LineValidator::salvage(std::string_view text) {
    // In a long line with many braces, each try parses the rest.
    std::size_t budget_bytes = 8 * text.size() + (std::size_t{64} << 10);
    std::size_t at = text.find("{\"", 1);
    for (int tries = 0; at != std::string_view::npos && tries < max_salvage_tries; ++tries) {
        if (text.size() - at > budget_bytes) return false;
        budget_bytes -= text.size() - at;
        if (parse(text.substr(at), false)) {
            ++report_.skipped_rows;
            report_.add_damage(report_.lines, "a broken row, with an intact one behind it on the same line");
            return true;
        }
        at = text.find("{\"", at + 1);
    }
    return false;
}

void FileReport::set_no_rank_file() {
    is_rank_file = false;
    unreadable = fmt::format("{}: not a rank file: line {}: {}", path, damages.front().line, damages.front().why);
    skipped_rows = damage_count = 0;
    cut_off = false;
    damages.clear();
}

void FileReport::end_early(const std::string& why) {
    if (!cut_off) {
        add_damage(lines, why);
    } else if (!damages.empty() && damages.back().line == lines) {
        damages.back().why = why;
    }
    cut_off = true;
}

FileReport read_file(const FileTask& task, RowReader& reader, Progress& progress, const std::atomic<bool>& abandoned,
                     std::size_t block_bytes, std::size_t line_limit_bytes) {
    const InputFile& file = task.file;
    LineValidator lines(file.path, task.sink, reader, task.runs, task.selection);
    FileReport& report = lines.report();
    std::unique_ptr<ByteSource> source;
    try {
        source = open_source(file);
        ByteWindow window(*source, progress, block_bytes, line_limit_bytes);
        bool goes_on = true;
        while (goes_on && !abandoned && !lines.gave_up()) goes_on = lines.take_lines(window);
    } catch (const ReadError& error) {
        report.unreadable = error.what();
    }
    if (source != nullptr) report.bytes = source->bytes_taken();
    if (!report.unreadable.empty()) return std::move(report);
    if (report.rows == 0 && report.skipped_rows > 0 && !file.name_rank) report.set_no_rank_file();
    if (!source->damage().empty() && report.is_rank_file) report.end_early(source->damage());
    return std::move(report);
}

}  // namespace cep::tool
