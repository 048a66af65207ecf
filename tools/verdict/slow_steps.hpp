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
    double threshold_ms = 0;  // a single step beyond it is not a usual one
    // Of the other ranks:
    double others_beyond = 0;  // steps beyond threshold_ms
    double others_steps = 1;   // all steps
    double burst = 1;          // so many of those beyond come together: only one of them counts
};

/// None where the rank is as usual. rank, phase, cost and waiting are for the caller to fill in.
[[nodiscard]] std::optional<Straggler> find_slow_steps(const Deviation& deviation, std::size_t peer,
                                                       const SearchScale& scale, const StragglerRules& rules);

}  // namespace cep::tool
