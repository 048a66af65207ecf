// SPDX-License-Identifier: Apache-2.0
//
// Byte sources: a file, plain or compressed, as a stream of its decompressed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "read/inputs.hpp"

namespace cep::tool {

class ByteSource {
  public:
    virtual ~ByteSource() = default;

    /// Reads 1 to `capacity` bytes; 0 at the end. Throws ReadError if the system refuses.
    virtual std::size_t read(char* out, std::size_t capacity) = 0;
    /// After the end: why the bytes stop before they should (a compressed stream that is cut off or damaged); else "".
    [[nodiscard]] virtual const std::string& damage() const = 0;
    /// Bytes taken from the file so far, before decompression.
    [[nodiscard]] virtual std::uint64_t bytes_taken() const = 0;
    /// Of a regular file whose bytes are those of the source; -1: there is none.
    [[nodiscard]] virtual int plain_file() const { return -1; }
};

/// Opens a file, or standard input for "-". gzip and zstd are told by their magic bytes, not by name.
/// Throws ReadError.
[[nodiscard]] std::unique_ptr<ByteSource> open_source(const InputFile& file);

}  // namespace cep::tool
