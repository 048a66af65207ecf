// SPDX-License-Identifier: Apache-2.0
#include "base/large_memory.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <new>
#include <vector>

namespace cep::tool {
namespace {

TEST(LargeMemory, CanBeWrittenFromItsFirstByteToItsLast) {
    constexpr std::size_t large_bytes = LargeMemory::large_bytes;
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, large_bytes - 1, large_bytes, large_bytes + 1, 3 * large_bytes + 12'345}) {
        std::vector<LargeMemory> several;
        for (unsigned i = 0; i < 3; ++i) several.emplace_back(bytes);
        for (unsigned i = 0; i < 3; ++i)
            for (std::size_t at = 0; at < bytes; ++at) several[i].data()[at] = static_cast<std::byte>(at + i);
        for (unsigned i = 0; i < 3; ++i)
            for (std::size_t at = 0; at < bytes; ++at)
                ASSERT_EQ(several[i].data()[at], static_cast<std::byte>(at + i)) << bytes << ' ' << i << ' ' << at;
    }
}

TEST(LargeMemory, SaysWhereThereIsTooLittle) {
    EXPECT_THROW(LargeMemory(std::size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace cep::tool
