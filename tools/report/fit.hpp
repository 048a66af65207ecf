// SPDX-License-Identifier: Apache-2.0
//
// Fit: which layers of a heat map a page has room for, and how fine they are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/heat.hpp"

namespace cep::report {

struct FittedLayer {
    const Layer* layer = nullptr;
    Block overview;
    std::optional<Block> by_rank;
    bool has_chosen = false;
    bool has_full = false;
};

struct FittedHeat {
    std::vector<FittedLayer> layers;
    Bins rank_bins;
    Bins step_bins;
    std::vector<std::string> left_out;  // sentences
};

/// Layers of at most `max_bytes` in all; none where there is no room at all.
[[nodiscard]] FittedHeat fit_heat(const HeatMap& heat, const JobView& view, std::size_t max_bytes);

}  // namespace cep::report
