// SPDX-License-Identifier: Apache-2.0
//
// Uneven steps: those that only some ranks recorded, because the library lengthened the stride of others. What compares
// ranks leaves them out: a job that waits for a rank that has no row would seem to wait for nobody.
#pragma once

#include <cstdint>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

/// By place in `steps`, which ascend: whether a rank left the step out because its stride was longer. Empty: none did.
[[nodiscard]] std::vector<bool> find_uneven_steps(const RankSeries& ranks, const std::vector<std::int64_t>& steps);

}  // namespace cep::tool
