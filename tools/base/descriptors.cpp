// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

namespace cep::tool {

std::size_t free_descriptors() {
    // Callers need no more than this, and counting up to a large limit would take long.
    constexpr rlim_t most = 1024;
    struct rlimit limit {};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    const int end = static_cast<int>(std::min(limit.rlim_cur, most));
    std::size_t free = 0;
    for (int descriptor = 0; descriptor < end; ++descriptor) free += ::fcntl(descriptor, F_GETFD) == -1;
    return free;
}

}  // namespace cep::tool
