// SPDX-License-Identifier: Apache-2.0
#include "read/file_reader.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/failure.hpp"

namespace cep::tool {
namespace {

/// Scans each line, and calls `take_row(row)` where that went well, else `take_line(text, complete)`.
template <typename TakeRow, typename TakeLine>
void scan_lines(std::string_view text, RowScanner& scanner, TakeRow take_row, TakeLine take_line) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        if (const Row* const row = scanner.scan(at); row != nullptr) {
            const char* behind = row->text.data() + row->text.size();
            behind += *behind == '\r';
            if (*behind == '\n') {
                take_row(*row);
                at = behind + 1;
                continue;
            }
        }
        const auto left = static_cast<std::size_t>(end - at);
        const auto* newline = static_cast<const char*>(std::memchr(at, '\n', left));
        const bool complete = newline != nullptr;
        const char* const line_end = complete ? newline : end;
        take_line(std::string_view(at, static_cast<std::size_t>(line_end - at)), complete);
        at = line_end + complete;
    }
}

// Word by word: gcc copies a whole object of this size by an instruction that takes as long as reading two numbers.
void copy(const Row& from, Row& to) {
    using Word [[gnu::vector_size(16), gnu::may_alias]] = std::uint64_t;
    static_assert(std::is_trivially_copyable_v<Row>);
    const auto copy_word = [&](std::size_t at) {
        Word word;
        std::memcpy(&word, reinterpret_cast<const char*>(&from) + at, sizeof word);
        std::memcpy(reinterpret_cast<char*>(&to) + at, &word, sizeof word);
    };
    for (std::size_t at = 0; at + sizeof(Word) <= sizeof(Row); at += sizeof(Word)) copy_word(at);
    copy_word(sizeof(Row) - sizeof(Word));
}

void scan_aside(ScannedBlock& block, RowScanner& scanner) {
    block.line_count = 0;
    scan_lines(
        block.block.text(), scanner,
        [&](const Row& row) {
            ScannedBlock::Line& line = block.next_line();
            copy(row, line.row);
            line.scanned = true;
        },
        [&](std::string_view text, bool) {
            ScannedBlock::Line& line = block.next_line();
            line.row.text = text;
            line.scanned = false;
        });
}

}  // namespace

ScannedBlock::Line& ScannedBlock::next_line() {
    if (line_count == lines.size()) lines.emplace_back();
    return lines[line_count++];
}

FileReader::FileReader(const InputFile& file, RowSink& sink, Progress& progress, const BlockSizes& sizes)
    : file_(file), progress_(progress), sizes_(sizes), judge_(file.path, sink) {}

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

// Passes the turn on, after giving what has been waiting for it.
void FileReader::end_turn(RowParser& parser) {
    std::unique_lock lock(turn_mutex_);
    ++next_turn_;
    while (!waiting_.empty() && waiting_.begin()->first == next_turn_) {
        OwnBlock block = std::move(waiting_.extract(waiting_.begin()).mapped());
        lock.unlock();
        give(*block, parser);
        lock.lock();
        spare_.push_back(std::move(block));
        ++next_turn_;
    }
    in_turn_ = false;
    turn_passed_.notify_all();
}

// It may be this block's turn by now; then it is given here.
void FileReader::wait_for_turn(std::uint64_t index, ReadingThread& thread) {
    std::unique_lock lock(turn_mutex_);
    if (!in_turn_ && index == next_turn_) {
        in_turn_ = true;
        lock.unlock();
        give(*thread.block, thread.parser);
        return end_turn(thread.parser);
    }
    waiting_.emplace(index, std::move(thread.block));
    // The thread whose block is next does not wait.
    turn_passed_.wait(lock, [this] { return waiting_.size() < max_waiting || abandoned_; });
}

// Memory that has been written to: new memory takes the system as long as reading a file into it.
FileReader::OwnBlock FileReader::spare_block() {
    const std::lock_guard lock(turn_mutex_);
    if (spare_.empty()) return std::make_unique<ScannedBlock>();
    OwnBlock block = std::move(spare_.back());
    spare_.pop_back();
    return block;
}

void FileReader::begin_block(const Block& block, RowParser& parser) {
    judge_.begin_block({block.bytes.data(), block.position, source_->plain_file()}, parser);
}

void FileReader::give(const ScannedBlock& block, RowParser& parser) {
    begin_block(block.block, parser);
    if (block.block.too_long) return judge_.take_too_long_line(block.block.complete);
    const std::string_view text = block.block.text();
    for (std::size_t i = 0; i < block.line_count; ++i) {
        const ScannedBlock::Line& line = block.lines[i];
        if (line.scanned) {
            judge_.take_row(line.row);
        } else {
            judge_.take_line(line.row.text, line.row.text.data() + line.row.text.size() != text.data() + text.size());
        }
    }
}

void FileReader::give_directly(ReadingThread& thread) {
    const Block& block = thread.block->block;
    begin_block(block, thread.parser);
    if (block.too_long) return judge_.take_too_long_line(block.complete);
    scan_lines(
        block.text(), thread.scanner, [this](const Row& row) { judge_.take_row(row); },
        [this](std::string_view text, bool complete) { judge_.take_line(text, complete); });
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
                end_turn(thread.parser);
            } else {
                scan_aside(*thread.block, thread.scanner);
                wait_for_turn(index, thread);
            }
        }
    } catch (...) {
        abandon();
        throw;
    }
}

FileReport FileReader::finish() {
    FileReport& report = judge_.report();
    report.bytes = bytes_taken_;
    report.unreadable = std::move(unreadable_);
    if (source_ == nullptr || !report.unreadable.empty() || source_->damage().empty()) return std::move(report);
    // The last line is then cut off too, but that is the same loss.
    if (!report.cut_off) report.add_damage(report.lines, source_->damage());
    report.cut_off = true;
    return std::move(report);
}

FileReport read_file(const InputFile& file, RowSink& sink, Progress& progress, const BlockSizes& sizes) {
    FileReader reader(file, sink, progress, sizes);
    ReadingThread thread;
    reader.work(thread);
    return reader.finish();
}

}  // namespace cep::tool
