// SPDX-License-Identifier: Apache-2.0
//
// Descriptors: how many more files this process may open.
#pragma once

#include <cstddef>

namespace cep::tool {

/// Below RLIMIT_NOFILE and not in use.
[[nodiscard]] std::size_t free_descriptors();

}  // namespace cep::tool
