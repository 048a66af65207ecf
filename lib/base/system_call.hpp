// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace cep {

/// Restores errno at the end of a scope: no call of cep.h changes it.
class KeepErrno {
  public:
    KeepErrno() noexcept : place_(&errno), value_(*place_) {}
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;
    ~KeepErrno() { *place_ = value_; }

  private:
    int* const place_;  ///< asked for once: that is a call of the C library
    const int value_;
};

/// open(2), repeated while signals interrupt it: file systems on a network or in user space let them.
[[nodiscard]] inline int open_file(const char* path, int flags, mode_t mode = 0) noexcept {
    int fd = -1;
    do {
        fd = ::open(path, flags, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

}  // namespace cep
