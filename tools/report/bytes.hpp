// SPDX-License-Identifier: Apache-2.0
//
// Bytes in a page: compressed, and as text.
#pragma once

#include <string>
#include <string_view>

namespace cep::report {

/// zlib's format (RFC 1950). Throws WriteError.
[[nodiscard]] std::string deflate(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace cep::report
