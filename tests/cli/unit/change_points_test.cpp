// SPDX-License-Identifier: Apache-2.0
#include "stats/change_points.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "job_tables.hpp"

namespace cep::tool {
namespace {

/// 100 at first, with noise of 1; times `factor` from `at` on.
std::vector<double> series(std::size_t count, std::size_t at, double factor, std::uint64_t seed) {
    Normal normal(seed);
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back((100 + normal()) * (i < at ? 1 : factor));
    return values;
}

TEST(ChangePoints, SmallChangesAreLeftOut) {
    EXPECT_TRUE(find_change_points(series(2000, 1000, 1.015, 2)).empty());
    EXPECT_EQ(find_change_points(series(2000, 1000, 1.03, 2)).size(), 1U);
    ChangeRules rules;
    rules.least_change = 0.01;
    EXPECT_EQ(find_change_points(series(2000, 1000, 1.015, 2), rules).size(), 1U);
}

/// Series of 400 in which a change is said, of 100.
template <typename Multiply>
std::size_t alarms(Multiply multiply) {
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Normal normal(seed);
        std::mt19937_64 bits(seed + 1000);
        std::vector<double> values;
        for (std::size_t i = 0; i < 400; ++i) values.push_back((100 + 2 * normal()) * multiply(i, bits));
        found += find_change_points(values).empty() ? 0 : 1;
    }
    return found;
}

double chance(std::mt19937_64& bits) {
    return static_cast<double>(bits() >> 11) / 9007199254740992.0;
}

TEST(ChangePoints, LongStepsOfTheSameShareAreNoChange) {
    for (const auto& mixture : {std::pair(1.4, 0.3), std::pair(2.0, 0.3), std::pair(1.3, 0.2), std::pair(1.2, 0.5)}) {
        const auto ms = [&](std::size_t, std::mt19937_64& bits) {
            return chance(bits) < mixture.second ? mixture.first : 1;
        };
        EXPECT_LE(alarms(ms), 1U) << mixture.first;
    }
}

TEST(ChangePoints, WhatComesAgainAndAgainIsNoChange) {
    const auto every = [](std::size_t period, std::size_t length, double factor) {
        return alarms([=](std::size_t i, std::mt19937_64&) { return (i + 37) % period < length ? factor : 1; });
    };
    EXPECT_EQ(every(10, 1, 1.5), 0U);
    EXPECT_EQ(every(100, 1, 10), 0U);
    EXPECT_EQ(every(100, 10, 2), 0U);
    EXPECT_EQ(alarms([](std::size_t i, std::mt19937_64&) {
                  return 1 + 0.05 * std::sin(static_cast<double>(i) * 2 * 3.14159265358979 / 90);
              }),
              0U);
}

// First-order autoregressions; at most 1 of 100 is stated.
TEST(ChangePoints, SeriesThatResembleTheirNeighboursHaveNone) {
    for (const double correlation : {0.8, 0.9, 0.95})
        for (const std::size_t size : {20U, 30U, 40U, 50U, 60U, 300U}) {
            const std::size_t all = size < 100 ? 1000 : 200;
            Normal normal(7);
            std::size_t found = 0;
            for (std::size_t i = 0; i < all; ++i) {
                std::vector<double> values;
                double own = normal();
                for (std::size_t step = 0; step < size; ++step) {
                    if (step > 0) own = correlation * own + std::sqrt(1 - correlation * correlation) * normal();
                    values.push_back(100 * std::exp(0.03 * own));
                }
                found += find_change_points(values).empty() ? 0 : 1;
            }
            EXPECT_LE(found, all / 100) << correlation << ", " << size << " steps";
        }
}

// A change of 7 standard errors: independent values of deviation 2, 200 on either side.
TEST(ChangePoints, NineOfTenAreFoundFromSevenErrorsOn) {
    const double factor = 1 + 7 * 0.02 * std::sqrt(2.0 / 200);
    ChangeRules rules;
    rules.least_change = 0;
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Normal normal(seed);
        std::vector<double> values;
        for (std::size_t i = 0; i < 400; ++i) values.push_back((100 + 2 * normal()) * (i < 200 ? 1 : factor));
        found += find_change_points(values, rules).empty() ? 0 : 1;
    }
    EXPECT_GE(found, 90U);
}

TEST(ChangePoints, TooFewStepsHaveNone) {
    std::vector<double> values(15, 100);
    for (std::size_t i = 8; i < 15; ++i) values[i] = 200;
    EXPECT_TRUE(find_change_points(values).empty());
    values.push_back(200);
    EXPECT_EQ(find_change_points(values).size(), 1U);
}

}  // namespace
}  // namespace cep::tool
