// SPDX-License-Identifier: Apache-2.0
#include "record/name_table.hpp"

#include <gtest/gtest.h>

#include <new>

namespace {

cep::Name* make(std::string_view name) {
    return new cep::Name(name);
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
