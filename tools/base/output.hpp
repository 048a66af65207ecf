// SPDX-License-Identifier: Apache-2.0
//
// Outputs: standard output, or a file that appears whole or not at all, compressed by its ending.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/encoder.hpp"

namespace cep::tool {

class Output {
  public:
    /// "" or "-": standard output. Else PATH: written under a temporary name beside it, which close() renames. A file
    /// that is replaced keeps its mode. A PATH that is a pipe or a device is written directly. ".gz" and ".zst"
    /// compress. Throws WriteError.
    explicit Output(const std::string& path);
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    /// Removes the temporary file, unless close() has renamed it.
    ~Output();

    /// Throws WriteError, or OutputClosed where the reader has closed its end.
    void write(std::string_view bytes);
    /// The same, and a newline.
    void write_line(std::string_view text);
    /// Writes what is buffered, and renames the temporary file. Throws as write() does.
    void close();

  private:
    void open_temporary();
    void flush(bool finish);
    void emit(std::string_view bytes, bool finish);

    std::string path_;
    std::string temporary_;  // "" for none
    int fd_ = -1;
    std::unique_ptr<Encoder> encoder_;
    std::string buffer_;
    std::vector<char> encoded_;
};

/// Writes a text as all of an output. Throws as Output does.
void write_output(const std::string& path, std::string_view text);
inline void write_standard_output(std::string_view text) {
    write_output("", text);
}

}  // namespace cep::tool
