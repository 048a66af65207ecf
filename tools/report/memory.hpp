// SPDX-License-Identifier: Apache-2.0
//
// Memory: the counters of each rank's device memory.
#pragma once

#include <string>
#include <vector>

#include "report/job_view.hpp"

namespace cep::report {

struct CounterOfRanks {
    std::string name;
    std::vector<float> by_rank;  // the largest value; NaN for none
};

/// Those whose names begin with "memory." and end with "_bytes".
[[nodiscard]] std::vector<CounterOfRanks> find_memory(const tool::Job& job, const JobView& view);

}  // namespace cep::report
