// SPDX-License-Identifier: Apache-2.0
#include "line_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace cep::analysis {
namespace {

/// Gives a text out in blocks of a few bytes, as a pipe may.
class TextSource : public ByteSource {
  public:
    TextSource(std::string text, std::size_t block_bytes) : text_(std::move(text)), block_bytes_(block_bytes) {}
    std::size_t read(char* out, std::size_t capacity) override {
        const std::size_t count = std::min({block_bytes_, capacity, text_.size() - at_});
        std::memcpy(out, text_.data() + at_, count);
        at_ += count;
        return count;
    }
    [[nodiscard]] const std::string& damage() const override { return damage_; }
    [[nodiscard]] std::uint64_t bytes_taken() const override { return at_; }

  private:
    std::string text_;
    std::string damage_;
    std::size_t block_bytes_;
    std::size_t at_ = 0;
};

std::vector<std::string> lines_of(const std::string& text, std::size_t block_bytes) {
    TextSource source(text, block_bytes);
    LineReader reader(source);
    std::vector<std::string> lines;
    for (Line line; reader.next(line);) {
        EXPECT_EQ(line.number, lines.size() + 1);
        lines.push_back(std::string(line.text) + (line.complete ? "" : "|"));
    }
    return lines;
}

TEST(LineReader, SplitsWhereverBlocksEnd) {
    for (const std::size_t block_bytes : {1U, 2U, 3U, 100U}) {
        EXPECT_EQ(lines_of("ab\n\nc\nde", block_bytes), (std::vector<std::string>{"ab", "", "c", "de|"}));
        EXPECT_EQ(lines_of("ab\n", block_bytes), (std::vector<std::string>{"ab"}));
        EXPECT_EQ(lines_of("", block_bytes), std::vector<std::string>{});
    }
}

TEST(LineReader, GrowsForALongLine) {
    const std::string text(5'000'000, 'x');
    EXPECT_EQ(lines_of(text + "\ny\n", 100'000), (std::vector<std::string>{text, "y"}));
}

TEST(LineReader, SkipsALineOverTheLimitAndGoesOn) {
    TextSource source("a\n" + std::string(100, 'x') + "\nb\n" + std::string(100, 'y'), 7);
    LineReader reader(source, 10);
    std::vector<std::pair<bool, bool>> lines;
    for (Line line; reader.next(line);) lines.emplace_back(line.too_long, line.complete);
    EXPECT_EQ(lines, (std::vector<std::pair<bool, bool>>{{false, true}, {true, true}, {false, true}, {true, false}}));
}

}  // namespace
}  // namespace cep::analysis
