// SPDX-License-Identifier: Apache-2.0
//
// Own cost: what the profiler took of the steps that it recorded, by its own estimate.
#pragma once

#include <cstdint>
#include <optional>

#include "model/job.hpp"

namespace cep::tool {

struct OwnCost {
    double median_share = 0;  // over ranks: time in calls of the profiler / time of the recorded steps
    double largest_share = 0;
    std::int64_t largest_rank = 0;
};

/// None where no rank has both, or where only some steps were read.
[[nodiscard]] std::optional<OwnCost> find_own_cost(const Job& job);

}  // namespace cep::tool
