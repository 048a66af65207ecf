// SPDX-License-Identifier: Apache-2.0
//
// Depths: how many spans of its thread a span is inside of, where rows do not say it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/phase_series.hpp"

namespace cep::tool {

inline constexpr std::int64_t tolerance_ns = 20'000;  // between the ends of spans that end with the same work

/// Finds the depths of all spans of ranks of which no row says one, by their times. Spans without starts keep 0.
void find_depths(RankSeries& ranks, std::size_t threads);

}  // namespace cep::tool
