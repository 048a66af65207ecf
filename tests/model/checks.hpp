// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "explorer.hpp"

/// A test that is one call.
#define TEST_THAT(suite, name, ...) \
    TEST(suite, name) {             \
        __VA_ARGS__;                \
    }

namespace model {

inline void expect_holds(const Maker& scenario) {
    const Outcome outcome = explore(scenario);
    EXPECT_EQ(outcome.failure, "");
    std::cout << outcome.executions << " executions\n";
}

inline void expect_fails(const Maker& scenario, const std::string& why) {
    const Outcome outcome = explore(scenario);
    EXPECT_EQ(outcome.failure.substr(0, why.size()), why);
}

/// The scenarios find every fault of one operation in `file`, except those in `beyond`. Only another order of two
/// threads' stores would show these, and the explorer does not change that order.
inline void expect_no_survivor(const std::vector<Maker>& scenarios, const std::string& file,
                               const std::vector<std::string>& beyond = {}) {
    std::size_t mutations = 0;
    EXPECT_EQ(surviving_mutations(scenarios, file, mutations), beyond);
    EXPECT_GT(mutations, beyond.size());
    std::cout << mutations << " mutants\n";
}

}  // namespace model
