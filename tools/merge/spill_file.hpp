// SPDX-License-Identifier: Apache-2.0
//
// Spill file: a temporary file without a name, for rows that exceed the memory, and for copies of inputs that can be
// read only once by a command that reads its inputs twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "read/inputs.hpp"

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

    void append(std::string_view bytes);
    void read(std::uint64_t offset, char* out, std::size_t size) const;
    [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
    /// By which it can be opened again.
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    [[noreturn]] void fail(const char* action) const;

    std::string directory_;
    int descriptor_ = -1;
    std::uint64_t size_bytes_ = 0;
};

using StreamCopies = std::vector<std::unique_ptr<SpillFile>>;

/// Copies standard input, pipes and devices of the set into a directory, and names the copies in the set. They last as
/// long as what this returns. One that cannot be read stays as it is. Throws WriteError.
[[nodiscard]] StreamCopies copy_streams(InputSet& set, const std::string& directory);

}  // namespace cep::tool
