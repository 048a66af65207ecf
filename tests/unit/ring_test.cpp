// SPDX-License-Identifier: Apache-2.0
#include "base/ring.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(Ring, HoldsExactlyItsCapacity) {
    cep::Ring<int> ring(16);
    for (int i = 0; i < 16; ++i) EXPECT_TRUE(ring.push(i));
    EXPECT_FALSE(ring.push(16));
    int item = -1;
    EXPECT_TRUE(ring.pop(item));
    EXPECT_EQ(item, 0);
    EXPECT_TRUE(ring.push(17));
    EXPECT_FALSE(ring.has_room());
}

TEST(Ring, RoundsItsCapacityUpToAPowerOfTwo) {
    EXPECT_EQ(cep::Ring<int>(17).capacity(), 32U);
}

TEST(Ring, IsEmptyAfterAsManyPopsAsPushes) {
    cep::Ring<int> ring(4);
    int item = 0;
    for (int round = 0; round < 100; ++round) {
        ASSERT_TRUE(ring.push(round));
        ASSERT_TRUE(ring.pop(item));
        ASSERT_EQ(item, round);
        ASSERT_FALSE(ring.pop(item));
    }
}

TEST(Ring, CountsAllPushedItems) {
    cep::Ring<int> ring(2);
    int item = 0;
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(ring.push(i));
        ASSERT_TRUE(ring.pop(item));
    }
    ASSERT_TRUE(ring.push(5));
    EXPECT_EQ(ring.pushed(), 6U);
    EXPECT_EQ(ring.size(), 1U);
}

TEST(ByteRing, ReturnsTextsAcrossItsEnd) {
    cep::ByteRing ring;
    std::string out;
    for (int round = 0; round < 1000; ++round) {
        const std::string text = std::to_string(round) + std::string(static_cast<std::size_t>(round % 997), 'x');
        ASSERT_TRUE(ring.push(text));
        ring.pop(text.size(), out);
        ASSERT_EQ(out, text);
    }
}

TEST(ByteRing, RefusesWhatDoesNotFit) {
    cep::ByteRing ring;
    const std::string big(40 * 1024, 'a');
    EXPECT_TRUE(ring.push(big));
    EXPECT_FALSE(ring.push(big));
    std::string out;
    ring.pop(big.size(), out);
    EXPECT_TRUE(ring.push(big));
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
