// SPDX-License-Identifier: Apache-2.0
//
// Slow steps: which steps of one rank and phase are slow, and whether that can be chance.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "verdict/deviation.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {

/// What all ranks of a search have in common.
struct SearchScale {
    double floor_ms = 0;      // below it, nothing is spoken of
    double tests = 1;         // ranks times phases that are looked at
    double chance = 1e-3;     // of a step of a usual rank to exceed threshold_ms
    double threshold_ms = 0;  // a single step beyond it is not a usual one
};

/// None where the rank is as usual. rank, phase, cost and waiting are for the caller to fill in.
[[nodiscard]] std::optional<Straggler> find_slow_steps(const Deviation& deviation, std::size_t peer,
                                                       const SearchScale& scale, const StragglerRules& rules);

}  // namespace cep::tool
