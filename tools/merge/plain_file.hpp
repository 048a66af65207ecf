// SPDX-License-Identifier: Apache-2.0
//
// Plain file: an input whose rows are not copied but read again when they are written.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cep::tool {

/// Reads all of `size` bytes, or throws ReadError, which begins with `name`.
void read_at(int descriptor, const std::string& name, std::uint64_t offset, char* out, std::size_t size);

/// A hash of 64 bytes of the text. Two different rows nearly always have different fingerprints.
[[nodiscard]] std::uint32_t text_fingerprint(std::string_view text);

class PlainFile {
  public:
    /// Closes the descriptor in the end.
    PlainFile(int descriptor, std::string path);
    PlainFile(const PlainFile&) = delete;
    PlainFile& operator=(const PlainFile&) = delete;
    ~PlainFile();

    /// Throws ReadError where the file has become shorter.
    void read(std::uint64_t offset, char* out, std::size_t size) const;
    /// Throws ReadError unless the text has this fingerprint.
    void check_text(std::string_view text, std::uint32_t fingerprint) const;
    /// Throws ReadError where the file has changed since the constructor, other than by appending.
    void check_unchanged() const;

  private:
    [[noreturn]] void fail_as_changed() const;

    int descriptor_;
    std::string path_;
    struct stat before_ {};
};

}  // namespace cep::tool
