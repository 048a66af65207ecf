// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

bool write_all(int descriptor, std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

}  // namespace cep::tool
