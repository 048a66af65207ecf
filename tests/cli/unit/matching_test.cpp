// SPDX-License-Identifier: Apache-2.0
#include "matching/transfers.hpp"

#include <gtest/gtest.h>

namespace cep::tool {
namespace {

/// Collectives of two groups that take turns, more than there is room for at first.
constexpr std::uint32_t count = 1000;

Transfers::Key key_of(std::uint32_t i) {
    return {i / 10, i % 2 != 0 ? i * 7919 : i};
}

TEST(Transfers, TakeTheLeastDurationOfAnyRank) {
    Transfers transfers;
    for (const double rank : {2.0, 1.0, 3.0, 4.0}) {
        Transfers::Guess guess;
        for (std::uint32_t i = 0; i < count; ++i) transfers.add(key_of(i), rank + i, guess);
    }
    Transfers::Guess guess;
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(transfers.of(key_of(i), guess).ms, 1.0 + i);
        EXPECT_EQ(transfers.of(key_of(i), guess).ranks, Transfers::many_ranks);
    }
}

TEST(Transfers, DoNotDependOnTheOrder) {
    Transfers transfers;
    Transfers::Guess guess;
    for (std::uint32_t i = 0; i < count; ++i) transfers.add(key_of(i), 1, guess);
    for (std::uint32_t i = count; i-- > 0;) transfers.add(key_of(i), 1 + i, guess);
    for (std::uint32_t i = count; i-- > 0;) EXPECT_EQ(transfers.of(key_of(i), guess).ranks, 2U);
}

TEST(Transfers, OfOneRankOnlyAreNotKnown) {
    Transfers transfers;
    Transfers::Guess guess;
    EXPECT_EQ(transfers.of({0, 1}, guess).ranks, 0U);
    transfers.add({0, 1}, 5, guess);
    EXPECT_EQ(transfers.of({0, 1}, guess).ranks, 0U);
    EXPECT_EQ(transfers.of({0, 2}, guess).ranks, 0U);
    EXPECT_EQ(transfers.of({1, 1}, guess).ranks, 0U);
}

}  // namespace
}  // namespace cep::tool
