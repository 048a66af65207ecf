// SPDX-License-Identifier: Apache-2.0
#include "ring.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

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

TEST(Ring, PassesEverythingInOrderBetweenTwoThreads) {
    constexpr int count = 200000;
    cep::Ring<int> ring(64);
    std::thread producer([&] {
        for (int i = 0; i < count;)
            if (ring.push(i))
                ++i;
            else
                std::this_thread::yield();
    });
    for (int expected = 0; expected < count;) {
        int item = -1;
        if (!ring.pop(item)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(item, expected++);
    }
    producer.join();
}

TEST(ByteRing, GivesTextsBackAcrossItsEnd) {
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

}  // namespace
