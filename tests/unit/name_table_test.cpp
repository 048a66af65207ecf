// SPDX-License-Identifier: Apache-2.0
#include "name_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

cep::Name* make(std::string_view name) {
    return new cep::Name(name);
}

TEST(NameTable, GivesTheSameNodeForTheSameName) {
    cep::NameTable<cep::Name> table(10);
    cep::Name* forward = table.find_or_add("forward", make);
    ASSERT_NE(forward, nullptr);
    EXPECT_EQ(table.find_or_add("forward", make), forward);
    EXPECT_NE(table.find_or_add("backward", make), forward);
    EXPECT_EQ(table.find("optimizer"), nullptr);
}

TEST(NameTable, IsFullAtItsLimitAndStillFindsWhatItHas) {
    cep::NameTable<cep::Name> table(2);
    cep::Name* a = table.find_or_add("a", make);
    ASSERT_NE(table.find_or_add("b", make), nullptr);
    EXPECT_EQ(table.find_or_add("c", make), nullptr);
    EXPECT_EQ(table.find_or_add("a", make), a);
}

TEST(NameTable, AgreesAmongThreadsThatFillItWithTheSameNames) {
    constexpr std::size_t threads = 8;
    constexpr std::size_t names = 500;
    cep::NameTable<cep::Name> table(names);
    std::array<std::vector<cep::Name*>, threads> seen;
    std::vector<std::thread> running;
    running.reserve(threads);
    for (auto& mine : seen)
        running.emplace_back([&table, &mine] {
            for (std::size_t i = 0; i < names; ++i) mine.push_back(table.find_or_add("name" + std::to_string(i), make));
        });
    for (auto& thread : running) thread.join();
    for (std::size_t i = 0; i < names; ++i) {
        cep::Name* const expected = table.find("name" + std::to_string(i));
        ASSERT_NE(expected, nullptr);
        for (const auto& mine : seen) ASSERT_EQ(mine[i], expected);
    }
    EXPECT_EQ(table.find_or_add("one more", make), nullptr);
}

TEST(NameTable, GivesItsPlacesToAsManyNamesAsItHasWhileThreadsCompete) {
    constexpr std::size_t threads = 8;
    constexpr std::size_t limit = 1000;
    cep::NameTable<cep::Name> table(limit);
    std::array<std::size_t, threads> added{};
    std::vector<std::thread> running;
    running.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t)
        running.emplace_back([&, t] {
            for (std::size_t i = 0; i < limit; ++i)
                added[t] += table.find_or_add(std::to_string(t) + "/" + std::to_string(i), make) != nullptr;
        });
    for (auto& thread : running) thread.join();
    EXPECT_EQ(std::accumulate(added.begin(), added.end(), std::size_t{0}), limit);
}

TEST(NameTable, StaysAsItWasWhenANameCannotBeMade) {
    cep::NameTable<cep::Name> table(1);
    const auto fails = [](std::string_view) -> cep::Name* { throw std::bad_alloc(); };
    EXPECT_THROW((void)table.find_or_add("a", fails), std::bad_alloc);
    EXPECT_EQ(table.find("a"), nullptr);
    EXPECT_NE(table.find_or_add("b", make), nullptr);
}

}  // namespace
