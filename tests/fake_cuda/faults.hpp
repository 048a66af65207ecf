// SPDX-License-Identifier: Apache-2.0
//
// The faults that a test injects; fake_cuda.h has the grammar.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "functions.hpp"

namespace fake_cuda {

enum class Fault : std::uint8_t { fail, block, sticky };

struct Rule {
    Fault fault = Fault::fail;
    /// None: any function that can report an earlier error.
    std::optional<Function> function;
    std::int32_t code = 0;
    std::uint64_t first = 1;
    std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t calls = 0;

    [[nodiscard]] bool concerns(Function called) const {
        return function ? *function == called : traits(called).reports_errors;
    }
    [[nodiscard]] bool due() const { return calls >= first && calls <= last; }
};

/// None if any rule of the text does not parse.
[[nodiscard]] std::optional<std::vector<Rule>> parse_rules(std::string_view text);

}  // namespace fake_cuda
