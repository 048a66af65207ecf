// SPDX-License-Identifier: Apache-2.0
#include "read/block_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/failure.hpp"
#include "read/row.hpp"

namespace cep::tool {

// Reads until the block has `room` bytes or the source ends. An error is kept until the lines before it are delivered.
void BlockReader::fill(Block& block, std::size_t room) {
    if (block.bytes.size() < room + RowParser::padding_bytes) block.bytes.resize(room + RowParser::padding_bytes);
    try {
        while (block.size < room && !ended_) {
            const std::size_t count = source_.read(block.bytes.data() + block.size, room - block.size);
            block.size += count;
            bytes_read_ += count;
            ended_ = count == 0;
        }
    } catch (const ReadError& error) {
        error_ = error.what();
        ended_ = true;
    }
}

void BlockReader::keep_rest(Block& block, std::size_t lines_size) {
    rest_.assign(block.bytes.data() + lines_size, block.size - lines_size);
    block.size = lines_size;
}

void BlockReader::skip_line(Block& block) {
    block.too_long = true;
    for (;;) {
        block.size = 0;
        fill(block, std::min(block_bytes_, line_limit_bytes_));
        const std::size_t newline = block.text().find('\n');
        block.complete = newline != std::string_view::npos;
        if (block.complete) keep_rest(block, newline + 1);
        if (block.complete || ended_) break;
    }
    block.size = 0;
}

bool BlockReader::next(Block& block) {
    block.too_long = block.complete = false;
    block.size = 0;
    block.position = bytes_read_ - rest_.size();
    // A long line needed much memory; short ones do not.
    if (block.bytes.size() > 8 * block_bytes_ + RowParser::padding_bytes) block.bytes = {};
    std::size_t room = std::min(std::max(block_bytes_, rest_.size()), line_limit_bytes_);
    if (block.bytes.size() < room + RowParser::padding_bytes) block.bytes.resize(room + RowParser::padding_bytes);
    std::memcpy(block.bytes.data(), rest_.data(), rest_.size());
    block.size = rest_.size();
    rest_.clear();
    while (!ended_) {
        fill(block, room);
        if (ended_) break;
        const std::size_t newline = block.text().rfind('\n');
        if (newline != std::string_view::npos) {
            keep_rest(block, newline + 1);
            break;
        }
        if (room == line_limit_bytes_) {
            skip_line(block);
            break;
        }
        room = std::min(2 * room, line_limit_bytes_);
    }
    // Drop the part of a line in front of an error.
    if (ended_ && !error_.empty() && !block.too_long) block.size = block.text().rfind('\n') + 1;
    std::memset(block.bytes.data() + block.size, 0, RowParser::padding_bytes);
    if (block.size == 0 && !block.too_long && !error_.empty()) throw ReadError(std::exchange(error_, {}));
    return block.size > 0 || block.too_long;
}

}  // namespace cep::tool
