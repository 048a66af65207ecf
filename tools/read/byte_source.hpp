// SPDX-License-Identifier: Apache-2.0
//
// Byte sources: a file, plain or compressed, as a stream of its decompressed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"
#include "read/inputs.hpp"

namespace cep::tool {

/// How damage() begins where a stream is too large to be read to its end.
inline constexpr std::string_view too_compressed = "it decompresses to over 100 times its size";

class ByteSource {
  public:
    ByteSource() = default;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;
    virtual ~ByteSource() = default;

    /// Reads 1 to `capacity` bytes; 0 at the end. Throws ReadError if the system refuses.
    virtual std::size_t read(char* out, std::size_t capacity) = 0;
    /// After the end: why a compressed stream stopped early (cut off, damaged, too large); else "".
    [[nodiscard]] virtual const std::string& damage() const = 0;
    /// Bytes taken from the file so far, before decompression.
    [[nodiscard]] virtual std::uint64_t bytes_taken() const = 0;
};

/// Opens a file, or standard input for "-". Magic bytes, not names, select gzip and zstd.
/// Throws ReadError.
[[nodiscard]] std::unique_ptr<ByteSource> open_source(const InputFile& file);

/// The bytes of a source that are in memory: a window that moves. RowParser::padding_bytes NULs follow them.
class ByteWindow {
  public:
    // Small enough to stay in a core's cache until its bytes are processed.
    static constexpr std::size_t default_block_bytes = std::size_t{128} << 10;
    static constexpr std::size_t default_limit_bytes = std::size_t{64} << 20;

    /// The progress hears of the bytes that are taken from the file.
    ByteWindow(ByteSource& source, Progress& progress, std::size_t block_bytes = default_block_bytes,
               std::size_t limit_bytes = default_limit_bytes);

    const char* at = nullptr;  // bytes in front of it may be dropped

    [[nodiscard]] const char* end() const { return bytes_.data() + size_; }
    [[nodiscard]] std::string_view text() const { return {at, end()}; }
    /// Reads more bytes; `at` still points to the same byte. False if the source ends or the limit is reached. Throws
    /// ReadError.
    bool extend();
    [[nodiscard]] bool ended() const { return ended_; }
    [[nodiscard]] std::uint64_t offset_of(const char* byte) const {
        return first_offset_ + static_cast<std::uint64_t>(byte - bytes_.data());
    }

  private:
    ByteSource& source_;
    Progress& progress_;
    std::size_t block_bytes_;
    std::size_t limit_bytes_;
    std::vector<char> bytes_;
    std::size_t size_ = 0;
    std::uint64_t first_offset_ = 0;
    std::uint64_t reported_bytes_ = 0;
    bool ended_ = false;
};

}  // namespace cep::tool
