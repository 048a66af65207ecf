// SPDX-License-Identifier: Apache-2.0
//
// Descriptors: how many more files this process may open, and writing all of some bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace cep::tool {

/// The descriptors below RLIMIT_NOFILE that are not in use; at most 1024.
[[nodiscard]] std::size_t free_descriptors();

/// Also after a signal, and where the system takes only a part at a time. False, with errno, where it takes no more.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes) noexcept;

}  // namespace cep::tool
