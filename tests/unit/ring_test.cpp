// SPDX-License-Identifier: Apache-2.0
#include "base/ring.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(Ring, RoundsItsCapacityUpToAPowerOfTwo) {
    EXPECT_EQ(cep::Ring<int>(17).capacity(), 32U);
}

TEST(ByteRing, HoldsItsCapacity) {
    cep::ByteRing ring(8);
    EXPECT_FALSE(ring.push("123456789"));
    EXPECT_TRUE(ring.push("12345678"));
    EXPECT_FALSE(ring.push("9"));
    std::string out;
    EXPECT_TRUE(ring.pop(8, out));
    EXPECT_EQ(out, "12345678");
}

}  // namespace
