// SPDX-License-Identifier: Apache-2.0
//
// Bytes in a page: compressed, as text, and their digest.
#pragma once

#include <string>
#include <string_view>

namespace cep::report {

/// zlib's format (RFC 1950). Throws WriteError.
[[nodiscard]] std::string deflate(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);
/// SHA-256 (FIPS 180-4) in base64, as a content security policy names a script or a style.
[[nodiscard]] std::string sha256_base64(std::string_view bytes);

}  // namespace cep::report
