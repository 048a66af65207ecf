// SPDX-License-Identifier: Apache-2.0
//
// Byte sources: a file, plain or compressed, as a stream of its decompressed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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
    /// The descriptor of an uncompressed regular file; else -1.
    [[nodiscard]] virtual int plain_file() const { return -1; }
};

/// Opens a file, or standard input for "-". Magic bytes, not names, select gzip and zstd.
/// Throws ReadError.
[[nodiscard]] std::unique_ptr<ByteSource> open_source(const InputFile& file);

}  // namespace cep::tool
