// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

namespace cep::tool {
namespace {

TEST(Parallel, CallsEachIndexOnce) {
    std::vector<std::atomic<int>> calls(1000);
    for_all(calls.size(), 4, [&](std::size_t i) { ++calls[i]; });
    EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), [](const auto& called) { return called == 1; }));
}

TEST(Parallel, PassesOnWhatIsThrown) {
    EXPECT_THROW(for_all(100, 4,
                         [](std::size_t i) {
                             if (i == 50) throw std::runtime_error("fifty");
                         }),
                 std::runtime_error);
}

}  // namespace
}  // namespace cep::tool
