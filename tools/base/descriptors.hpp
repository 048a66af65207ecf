// SPDX-License-Identifier: Apache-2.0
//
// Descriptors: how many more files this process may open.
#pragma once

#include <cstddef>

namespace cep::tool {

/// The descriptors below RLIMIT_NOFILE that are not in use; at most 1024.
[[nodiscard]] std::size_t free_descriptors();

}  // namespace cep::tool
