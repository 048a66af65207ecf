// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace cep
