// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace cep {

/// open(2), repeated while signals interrupt it: file systems on a network or in user space let them.
[[nodiscard]] inline int open_file(const char* path, int flags, mode_t mode = 0) noexcept {
    int fd = -1;
    do {
        fd = ::open(path, flags, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

}  // namespace cep
