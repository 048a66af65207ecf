// SPDX-License-Identifier: Apache-2.0
#include "read/file_reader.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/failure.hpp"
#include "read/line_validator.hpp"

namespace cep::tool {
namespace {

void read_blocks(ByteSource& source, LineValidator& lines, Block& block, Progress& progress, const BlockSizes& sizes,
                 const std::atomic<bool>& abandoned) {
    BlockReader blocks(source, sizes.block_bytes, sizes.line_limit_bytes);
    FileReport& report = lines.report();
    try {
        while (!abandoned && !lines.gave_up() && blocks.next(block)) {
            progress.advance(source.bytes_taken() - std::exchange(report.bytes, source.bytes_taken()));
            lines.take_block(block, source.plain_file());
        }
    } catch (const ReadError& error) {
        report.unreadable = error.what();
    }
    progress.advance(source.bytes_taken() - std::exchange(report.bytes, source.bytes_taken()));
}

}  // namespace

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

FileReport read_file(const InputFile& file, RowSink& sink, ReadingThread& thread, Progress& progress,
                     const BlockSizes& sizes, const std::atomic<bool>& abandoned) {
    LineValidator lines(file.path, sink, thread.reader);
    FileReport& report = lines.report();
    std::unique_ptr<ByteSource> source;
    try {
        source = open_source(file);
    } catch (const ReadError& error) {
        report.unreadable = error.what();
        return std::move(report);
    }
    read_blocks(*source, lines, thread.block, progress, sizes, abandoned);
    if (!report.unreadable.empty()) return std::move(report);
    if (report.rows == 0 && report.skipped_rows > 0 && !file.name_rank) report.set_no_rank_file();
    if (!source->damage().empty() && report.is_rank_file) report.end_early(source->damage());
    return std::move(report);
}

}  // namespace cep::tool
