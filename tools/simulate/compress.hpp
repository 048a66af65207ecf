// SPDX-License-Identifier: Apache-2.0
//
// Compressed blocks that may be written one after the other into a file.
#pragma once

#include <string>
#include <string_view>

namespace cep::simulation {

[[nodiscard]] std::string gzip_member(std::string_view text);
[[nodiscard]] std::string zstd_frame(std::string_view text);

}  // namespace cep::simulation
