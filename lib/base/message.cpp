// SPDX-License-Identifier: Apache-2.0
#include "base/message.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/background_thread.hpp"

namespace cep {

void print_message(std::int32_t rank, std::string_view text) noexcept {
    const KeepErrno keep;
    const WriteSignalsBlocked blocked;
    char line[2048];
    const int size = std::snprintf(line, sizeof line, "cep: rank %d: %.*s\n", rank,
                                   static_cast<int>(std::min<std::size_t>(text.size(), 1900)), text.data());
    // One write, so that lines of many ranks do not mix. A failed write is ignored: there is nowhere to report it.
    if (size > 0 && ::write(STDERR_FILENO, line, static_cast<std::size_t>(size)) < 0) return;
}

}  // namespace cep
