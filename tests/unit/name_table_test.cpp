// SPDX-License-Identifier: Apache-2.0
#include "record/name_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <new>
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
    cep::Name* backward = table.find_or_add("backward", make);
    ASSERT_NE(backward, nullptr);
    EXPECT_NE(backward, forward);
    EXPECT_EQ(table.find("forward"), forward);
    EXPECT_EQ(table.find("backward"), backward);
    EXPECT_EQ(forward->text, "forward");
    EXPECT_EQ(table.find("optimizer"), nullptr);
}

TEST(NameTable, IsFullAtItsLimitAndStillFindsWhatItHas) {
    cep::NameTable<cep::Name> table(2);
    cep::Name* a = table.find_or_add("a", make);
    cep::Name* b = table.find_or_add("b", make);
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(table.find_or_add("c", make), nullptr);
    EXPECT_EQ(table.find("c"), nullptr);
    EXPECT_EQ(table.find_or_add("a", make), a);
    EXPECT_EQ(table.find_or_add("b", make), b);
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
    const auto name = [](std::size_t thread, std::size_t i) {
        return std::to_string(thread) + "/" + std::to_string(i);
    };
    std::array<std::vector<cep::Name*>, threads> given;
    std::vector<std::thread> running;
    running.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t)
        running.emplace_back([&, t] {
            for (std::size_t i = 0; i < limit; ++i) given[t].push_back(table.find_or_add(name(t, i), make));
        });
    for (auto& thread : running) thread.join();
    std::size_t added = 0;
    for (std::size_t t = 0; t < threads; ++t)
        for (std::size_t i = 0; i < limit; ++i) {
            ASSERT_EQ(table.find(name(t, i)), given[t][i]) << "null for a name that was refused: it is not there";
            ASSERT_EQ(table.find_or_add(name(t, i), make), given[t][i]);
            if (given[t][i] == nullptr) continue;
            ASSERT_EQ(given[t][i]->text, name(t, i));
            ++added;
        }
    EXPECT_EQ(added, limit);
}

TEST(NameTable, StaysAsItWasWhenANameCannotBeMade) {
    cep::NameTable<cep::Name> table(1);
    const auto fails = [](std::string_view) -> cep::Name* { throw std::bad_alloc(); };
    EXPECT_THROW((void)table.find_or_add("a", fails), std::bad_alloc);
    EXPECT_EQ(table.find("a"), nullptr);
    cep::Name* b = table.find_or_add("b", make);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(table.find("b"), b);
}

}  // namespace
