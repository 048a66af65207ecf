// SPDX-License-Identifier: Apache-2.0
//
// Outputs: standard output, or a file that appears whole or not at all, compressed by its ending.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cep::tool {

class Output {
  public:
    /// "" or "-": standard output. Else PATH: written beside itself under a temporary name, and renamed by close().
    /// A PATH that exists and is no regular file (a pipe, a device) is written as it is. ".gz" and ".zst" compress.
    /// Throws WriteError.
    explicit Output(const std::string& path);
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    /// Without close(): removes the temporary.
    ~Output();

    /// Throws WriteError, or OutputClosed where the reader is gone.
    void write(std::string_view bytes);
    /// The same, and a newline.
    void write_line(std::string_view text);
    /// Writes what is buffered, and renames. Throws as write().
    void close();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

/// Writes a whole text to standard output.
void write_standard_output(std::string_view text);

}  // namespace cep::tool
