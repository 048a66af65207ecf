// SPDX-License-Identifier: Apache-2.0
//
// Encoders: gzip and zstd streams.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace cep::tool {

enum class Effort { usual, least };

/// Compresses a stream block by block.
class Encoder {
  public:
    virtual ~Encoder() = default;
    /// Replaces `out` by what `input` adds to the stream; `finish` ends the stream. Throws WriteError.
    virtual void encode(std::string_view input, bool finish, std::vector<char>& out) = 0;
};

/// By the ending of a file's name, ".gz" or ".zst"; nullptr for others. The same input gives the same bytes. Throws
/// WriteError.
[[nodiscard]] std::unique_ptr<Encoder> make_encoder(std::string_view path, Effort effort = Effort::usual);

}  // namespace cep::tool
