// SPDX-License-Identifier: Apache-2.0
//
// Byte sources for tests.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/failure.hpp"
#include "read/byte_source.hpp"

namespace cep::tool {

/// Gives a text out in pieces of a few bytes, as a pipe may; then ends, or fails.
class TextSource : public ByteSource {
  public:
    TextSource(std::string text, std::size_t piece_bytes, bool fails = false)
        : text_(std::move(text)), piece_bytes_(piece_bytes), fails_(fails) {}
    std::size_t read(char* out, std::size_t capacity) override {
        const std::size_t count = std::min({piece_bytes_, capacity, text_.size() - at_});
        if (count == 0 && fails_) throw ReadError("the disk is gone");
        std::memcpy(out, text_.data() + at_, count);
        at_ += count;
        return count;
    }
    [[nodiscard]] const std::string& damage() const override { return damage_; }
    [[nodiscard]] std::uint64_t bytes_taken() const override { return at_; }

  private:
    std::string text_;
    std::string damage_;
    std::size_t piece_bytes_;
    std::size_t at_ = 0;
    bool fails_;
};

}  // namespace cep::tool
