// SPDX-License-Identifier: Apache-2.0
#include "line_reader.hpp"

#include <algorithm>
#include <cstring>

namespace cep::analysis {
namespace {

constexpr std::size_t first_buffer_bytes = std::size_t{1} << 20;

}  // namespace

LineReader::LineReader(ByteSource& source, std::size_t limit_bytes)
    : source_(source), limit_bytes_(limit_bytes), buffer_(std::min(first_buffer_bytes, limit_bytes) + padding_bytes) {}

// Makes room by moving the unread bytes to the front, or by growing up to the limit; then reads.
bool LineReader::fill() {
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    const std::size_t room = buffer_.size() - padding_bytes;
    if (end_ == room) buffer_.resize(std::min(2 * room, limit_bytes_) + padding_bytes);
    const std::size_t count = source_.read(buffer_.data() + end_, buffer_.size() - padding_bytes - end_);
    end_ += count;
    return count > 0;
}

bool LineReader::next(Line& line) {
    std::size_t searched = 0;
    for (;;) {
        const char* first = buffer_.data() + begin_;
        const void* newline = std::memchr(first + searched, '\n', end_ - begin_ - searched);
        if (newline != nullptr) {
            const auto size = static_cast<std::size_t>(static_cast<const char*>(newline) - first);
            line = {{first, size}, ++number_, true, false};
            begin_ += size + 1;
            return true;
        }
        searched = end_ - begin_;
        if (searched == limit_bytes_) {
            skip_rest_of_line(line);
            return true;
        }
        if (fill()) continue;
        if (searched == 0) return false;
        line = {{buffer_.data() + begin_, searched}, ++number_, false, false};
        begin_ = end_;
        return true;
    }
}

void LineReader::skip_rest_of_line(Line& line) {
    line = {{}, ++number_, false, true};
    for (;;) {
        const void* newline = std::memchr(buffer_.data() + begin_, '\n', end_ - begin_);
        line.complete = newline != nullptr;
        begin_ =
            line.complete ? static_cast<std::size_t>(static_cast<const char*>(newline) - buffer_.data()) + 1 : end_;
        if (line.complete || !fill()) return;
    }
}

}  // namespace cep::analysis
