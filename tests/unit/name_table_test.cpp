// SPDX-License-Identifier: Apache-2.0
#include "name_table.hpp"

#include <gtest/gtest.h>

#include <array>
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

TEST(NameTable, AgreesAmongThreadsThatAddTheSameNames) {
    constexpr std::size_t threads = 8;
    constexpr std::size_t names = 500;
    cep::NameTable<cep::Name> table(names);
    std::array<std::vector<cep::Name*>, threads> seen;
    std::vector<std::thread> running;
    for (auto& mine : seen)
        running.emplace_back([&table, &mine] {
            for (std::size_t i = 0; i < names; ++i) mine.push_back(table.find_or_add("name" + std::to_string(i), make));
        });
    for (auto& thread : running) thread.join();
    for (std::size_t i = 0; i < names; ++i) {
        cep::Name* const expected = table.find("name" + std::to_string(i));
        ASSERT_NE(expected, nullptr);
        for (const auto& mine : seen)
            if (mine[i] != nullptr) {
                ASSERT_EQ(mine[i], expected);
            }
    }
}

}  // namespace
