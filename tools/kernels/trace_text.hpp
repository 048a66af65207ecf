// SPDX-License-Identifier: Apache-2.0
//
// Trace text: the bytes of a trace as a window that moves, and where values end in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "read/byte_source.hpp"

namespace cep::kernels {

/// Where a value ends.
struct ValueEnd {
    enum class Why : std::uint8_t {
        whole,   // `at` is the byte behind it
        cut,     // the bytes end first
        broken,  // a line ends inside a string, which JSON does not allow
    };
    const char* at = nullptr;
    Why why = Why::cut;
};

/// Bytes that must be readable behind every text given to the functions below.
inline constexpr std::size_t text_padding_bytes = 64;

/// The end of the object or array that begins at `at`. Counts brackets outside strings, 64 bytes at a time.
[[nodiscard]] ValueEnd find_nested_end(const char* at, const char* end);
/// The end of any value.
[[nodiscard]] ValueEnd find_value_end(const char* at, const char* end);
[[nodiscard]] const char* skip_blanks(const char* at, const char* end);

/// The text between the quotes; "" for a value that is no string.
[[nodiscard]] std::string_view inside_quotes(std::string_view value);

/// The bytes of a trace that are in memory.
class TraceWindow {
  public:
    // Small enough to stay in a core's cache until its events are processed.
    static constexpr std::size_t default_block_bytes = std::size_t{256} << 10;
    static constexpr std::size_t max_value_bytes = std::size_t{64} << 20;

    TraceWindow(tool::ByteSource& source, std::function<void(std::uint64_t)> on_bytes,
                std::size_t block_bytes = default_block_bytes);

    const char* at = nullptr;  // bytes in front of it may be dropped

    [[nodiscard]] const char* end() const { return bytes_.data() + size_; }
    /// Reads more bytes; `at` still points to the same byte. False if the source ends or the limit is reached.
    bool extend();
    [[nodiscard]] bool ended() const { return ended_; }
    [[nodiscard]] std::uint64_t offset_bytes() const { return offset_of(at); }
    [[nodiscard]] std::uint64_t offset_of(const char* byte) const {
        return first_offset_ + static_cast<std::uint64_t>(byte - bytes_.data());
    }
    /// Moves `at` to the next byte that is not blank. '\0' at the end.
    char peek();
    /// Takes the value at `at`, whatever its length, and moves `at` behind it.
    ValueEnd take_value(std::string_view& value);

  private:
    tool::ByteSource& source_;
    std::function<void(std::uint64_t)> on_bytes_;
    std::size_t block_bytes_;
    std::vector<char> bytes_;
    std::size_t size_ = 0;
    std::uint64_t first_offset_ = 0;
    std::uint64_t reported_bytes_ = 0;
    bool ended_ = false;
};

}  // namespace cep::kernels
