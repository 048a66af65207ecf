// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "explorer.hpp"

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

/// Each fault of one operation in `file` is found by one of the scenarios, but for `beyond`: those that only the order
/// of two stores of different threads shows, which the explorer does not change.
inline void expect_no_survivor(const std::vector<Maker>& scenarios, const std::string& file,
                               const std::vector<std::string>& beyond = {}) {
    std::size_t mutations = 0;
    EXPECT_EQ(surviving_mutations(scenarios, file, mutations), beyond);
    EXPECT_GT(mutations, beyond.size());
    std::cout << mutations << " mutants\n";
}

}  // namespace model
