// SPDX-License-Identifier: Apache-2.0
#include "read/file_reader.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/failure.hpp"

namespace cep::tool {
namespace {

/// Calls `lines.take_row(row)` for each line that matches a known pattern, `lines.take_blank_lines(count)` for empty
/// lines, and `lines.take_line(text, complete)` for all others.
template <typename Lines>
void scan_lines(std::string_view text, RowReader& reader, Lines& lines) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        if (const Row* const row = reader.scan(at); row != nullptr) {
            const char* behind = row->text.data() + row->text.size();
            behind += *behind == '\r';
            if (*behind == '\n') {
                lines.take_row(*row);
                at = behind + 1;
                continue;
            }
        }
        if (*at == '\n') {
            const char* const begin = at;
            while (*at == '\n') ++at;
            lines.take_blank_lines(static_cast<std::uint32_t>(at - begin));
            continue;
        }
        const auto left = static_cast<std::size_t>(end - at);
        const auto* newline = static_cast<const char*>(std::memchr(at, '\n', left));
        const bool complete = newline != nullptr;
        const char* const line_end = complete ? newline : end;
        lines.take_line(std::string_view(at, static_cast<std::size_t>(line_end - at)), complete);
        at = line_end + complete;
    }
}

/// Keeps lines until their turn.
struct LinesAhead {
    void take_row(const Row& row) { add(row.text, &row); }
    void take_line(std::string_view text, bool) {
        add(text, reader.parse_in_place(text.ends_with('\r') ? text.substr(0, text.size() - 1) : text));
    }
    void take_blank_lines(std::uint32_t count) { blank_lines += count; }
    void add(std::string_view text, const Row* row) {
        scanned.lines.push_back({text, std::exchange(blank_lines, 0), row != nullptr});
        if (row != nullptr) scanned.rows.push_back(*row);
    }

    ScannedBlock& scanned;
    RowReader& reader;
    std::uint32_t blank_lines = 0;
};

void scan_ahead(ScannedBlock& scanned, RowReader& reader) {
    scanned.lines.clear();
    scanned.rows.clear();
    LinesAhead lines{scanned, reader};
    scan_lines(scanned.block.text(), reader, lines);
    if (lines.blank_lines > 0) lines.add({}, nullptr);
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

FileReader::FileReader(const InputFile& file, RowSink& sink, Progress& progress, const BlockSizes& sizes)
    : file_(file), progress_(progress), sizes_(sizes), validator_(file.path, sink) {}

bool FileReader::read_block(Block& block, std::uint64_t& index) {
    const std::lock_guard lock(read_mutex_);
    if (all_read_ || abandoned_) return false;
    try {
        if (source_ == nullptr) {
            source_ = open_source(file_);
            blocks_ = std::make_unique<BlockReader>(*source_, sizes_.block_bytes, sizes_.line_limit_bytes);
        }
        all_read_ = !blocks_->next(block);
    } catch (const ReadError& error) {
        unreadable_ = error.what();
        all_read_ = true;
    }
    if (source_ != nullptr)
        progress_.advance(source_->bytes_taken() - std::exchange(bytes_taken_, source_->bytes_taken()));
    index = next_read_++;
    return !all_read_;
}

bool FileReader::begin_turn(std::uint64_t index) {
    const std::lock_guard lock(turn_mutex_);
    if (in_turn_ || index != next_turn_) return false;
    return in_turn_ = true;
}

// Delivers the blocks that waited for this one, then passes the turn on.
void FileReader::end_turn(RowReader& reader) {
    std::unique_lock lock(turn_mutex_);
    ++next_turn_;
    while (!waiting_.empty() && waiting_.begin()->first == next_turn_) {
        OwnBlock block = std::move(waiting_.extract(waiting_.begin()).mapped());
        lock.unlock();
        give(*block, reader);
        lock.lock();
        spare_.push_back(std::move(block));
        ++next_turn_;
    }
    in_turn_ = false;
    turn_passed_.notify_all();
}

// If the block's turn has come meanwhile, it is delivered here.
void FileReader::wait_for_turn(std::uint64_t index, ReadingThread& thread) {
    std::unique_lock lock(turn_mutex_);
    if (!in_turn_ && index == next_turn_) {
        in_turn_ = true;
        lock.unlock();
        give(*thread.block, thread.reader);
        return end_turn(thread.reader);
    }
    waiting_.emplace(index, std::move(thread.block));
    // No deadlock: the thread that has the next block never waits here.
    turn_passed_.wait(lock, [this] { return waiting_.size() < max_waiting || abandoned_; });
}

// Reuses memory: the page faults of new memory cost as much as reading a file into it.
FileReader::OwnBlock FileReader::spare_block() {
    const std::lock_guard lock(turn_mutex_);
    if (spare_.empty()) return std::make_unique<ScannedBlock>();
    OwnBlock block = std::move(spare_.back());
    spare_.pop_back();
    return block;
}

void FileReader::begin_block(const Block& block, RowReader& reader) {
    validator_.begin_block({block.bytes.data(), block.position, source_->plain_file()}, reader);
}

void FileReader::give(const ScannedBlock& block, RowReader& reader) {
    begin_block(block.block, reader);
    if (block.block.too_long) return validator_.take_too_long_line(block.block.complete);
    const char* const end = block.block.text().data() + block.block.text().size();
    auto next_row = block.rows.begin();
    for (const ScannedBlock::Line& line : block.lines) {
        if (line.blank_lines > 0) validator_.take_blank_lines(line.blank_lines);
        if (line.is_row) {
            validator_.take_row(*next_row++);
        } else if (line.text.data() != nullptr) {
            validator_.take_line(line.text, line.text.data() + line.text.size() != end);
        }
    }
    stop_if_given_up();
}

// Stops reading a file that the validator has given up.
void FileReader::stop_if_given_up() {
    if (!validator_.gave_up()) return;
    const std::lock_guard lock(read_mutex_);
    all_read_ = true;
}

void FileReader::give_directly(ReadingThread& thread) {
    const Block& block = thread.block->block;
    begin_block(block, thread.reader);
    if (block.too_long) return validator_.take_too_long_line(block.complete);
    scan_lines(block.text(), thread.reader, validator_);
    stop_if_given_up();
}

void FileReader::abandon() {
    abandoned_ = true;
    const std::lock_guard lock(turn_mutex_);
    turn_passed_.notify_all();
}

void FileReader::work(ReadingThread& thread) {
    try {
        for (std::uint64_t index = 0;;) {
            if (thread.block == nullptr) thread.block = spare_block();
            if (!read_block(thread.block->block, index)) return;
            if (begin_turn(index)) {
                give_directly(thread);
                end_turn(thread.reader);
            } else {
                scan_ahead(*thread.block, thread.reader);
                wait_for_turn(index, thread);
            }
        }
    } catch (...) {
        abandon();
        throw;
    }
}

FileReport FileReader::finish() {
    FileReport& report = validator_.report();
    report.bytes = bytes_taken_;
    report.unreadable = std::move(unreadable_);
    if (source_ == nullptr || !report.unreadable.empty()) return std::move(report);
    if (report.rows == 0 && report.skipped_rows > 0 && !file_.name_rank) report.set_no_rank_file();
    if (source_->damage().empty() || !report.is_rank_file) return std::move(report);
    report.end_early(source_->damage());
    return std::move(report);
}

}  // namespace cep::tool
