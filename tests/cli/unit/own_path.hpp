// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace cep::tool {

/// A temporary path that no test of another process uses: two builds may be tested at once.
inline std::string own_path(const std::string& name) {
    return testing::TempDir() + name + "-" + std::to_string(getpid()) + "-";
}

}  // namespace cep::tool
