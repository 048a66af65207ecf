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

#include "read/inputs.hpp"

namespace cep::tool {

/// How damage() begins where a stream is too large to be read to its end.
inline constexpr std::string_view too_compressed = "it decompresses to over 100 times its size";

class ByteSource {
  public:
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

/// Some lines. Use the same object for the next block: its memory is kept.
struct Block {
    std::vector<char> bytes;
    std::size_t size = 0;   // of the lines; NULs follow
    bool too_long = false;  // the block stands for one line that is longer than the limit, without its text
    bool complete = false;  // with too_long: a newline ended that line

    /// Each line ends with a newline, but for the last line of a file.
    [[nodiscard]] std::string_view text() const { return {bytes.data(), size}; }
};

class BlockReader {
  public:
    // Small enough to stay in a core's cache until its rows are processed.
    static constexpr std::size_t default_block_bytes = std::size_t{128} << 10;
    static constexpr std::size_t default_line_limit_bytes = std::size_t{64} << 20;

    explicit BlockReader(ByteSource& source, std::size_t block_bytes = default_block_bytes,
                         std::size_t line_limit_bytes = default_line_limit_bytes)
        : source_(source), block_bytes_(block_bytes), line_limit_bytes_(line_limit_bytes) {}

    /// Reads the next block. False at the end. Delivers the lines before a read error first, then throws ReadError.
    bool next(Block& block);

  private:
    void fill(Block& block, std::size_t room);
    void keep_rest(Block& block, std::size_t lines_size);
    void skip_line(Block& block);

    ByteSource& source_;
    std::size_t block_bytes_;
    std::size_t line_limit_bytes_;
    std::string rest_;  // the begin of the next block's first line
    std::string error_;
    bool ended_ = false;
};

}  // namespace cep::tool
