// SPDX-License-Identifier: Apache-2.0
//
// Lines of a byte source, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "byte_source.hpp"

namespace cep::analysis {

struct Line {
    std::string_view text;     // without its newline; at least LineReader::padding_bytes may be read behind it
    std::uint64_t number = 0;  // from 1
    bool complete = false;     // ended by a newline, not by the end of the file
    bool too_long = false;     // longer than the limit: text is its beginning
};

class LineReader {
  public:
    static constexpr std::size_t padding_bytes = 64;  // what simdjson may read behind a document
    static constexpr std::size_t default_limit_bytes = std::size_t{64} << 20;

    explicit LineReader(ByteSource& source, std::size_t limit_bytes = default_limit_bytes);

    /// The next line; its text is valid until the next call. False at the end.
    bool next(Line& line);

  private:
    bool fill();
    void skip_rest_of_line(Line& line);

    ByteSource& source_;
    std::size_t limit_bytes_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::uint64_t number_ = 0;
};

}  // namespace cep::analysis
