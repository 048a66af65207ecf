// SPDX-License-Identifier: Apache-2.0
//
// Spill file: a temporary file without a name, for what does not fit into memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace cep::tool {

/// Reads all of `size` bytes, or throws ReadError.
void read_at(int descriptor, std::uint64_t offset, char* out, std::size_t size);

class SpillFile {
  public:
    /// Throws WriteError, here and below.
    explicit SpillFile(const std::string& directory);
    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;
    ~SpillFile();

    /// Returns where the bytes are. Thread-safe; what one thread appends with no other beside it is in one piece.
    std::uint64_t append(std::string_view bytes);
    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

  private:
    [[noreturn]] void fail(const char* action) const;

    std::string directory_;
    int descriptor_ = -1;
    std::atomic<std::uint64_t> size_bytes_{0};
};

}  // namespace cep::tool
