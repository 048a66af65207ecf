// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

namespace cep {

/// Restores errno at the end of a scope: no call of cep.h changes it.
class KeepErrno {
  public:
    KeepErrno() noexcept : value_(errno) {}
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;
    ~KeepErrno() { errno = value_; }

  private:
    const int value_;
};

}  // namespace cep
