// SPDX-License-Identifier: Apache-2.0
//
// Spill file: a temporary file without a name, for rows that exceed the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace cep::tool {

/// TMPDIR; else the directory of the output, which has room for the output and so for its rows; else /var/tmp.
[[nodiscard]] std::string spill_directory_for(const std::string& output_path);

class SpillFile {
  public:
    /// Throws WriteError, as append() does.
    explicit SpillFile(const std::string& directory);
    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;
    ~SpillFile();

    /// Returns where the bytes are. Thread-safe; calls that do not overlap append one contiguous piece.
    std::uint64_t append(std::string_view bytes);
    void read(std::uint64_t offset, char* out, std::size_t size) const;
    [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
    /// By which it can be opened again.
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    [[noreturn]] void fail(const char* action) const;

    std::string directory_;
    int descriptor_ = -1;
    std::atomic<std::uint64_t> size_bytes_{0};
};

}  // namespace cep::tool
