// SPDX-License-Identifier: Apache-2.0
//
// Blocking communication: which communication the work that it is inside of waits for, in rows that name neither a
// stream nor how deep they are.
#pragma once

#include <cstdint>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

/// Sets PhaseSeries::blocks. `steps`: of which samples were kept, ascending.
void find_blocking_comm(RankSeries& ranks, const std::vector<std::int64_t>& steps);

}  // namespace cep::tool
