// SPDX-License-Identifier: Apache-2.0
//
// Priced steps: the steps of a job that are put into graphs and replayed. All of them, or as many as there is time for.
#pragma once

#include <cstdint>
#include <vector>

#include "model/job_rows.hpp"

namespace cep::tool {

struct PricedStep {
    std::uint32_t step = 0;  // index into JobRows::steps()
    double weight = 1;       // how many steps of the job it stands for, over the mean of that
    bool is_long = false;    // much longer than the median
};

/// Where some are chosen: the longest of those that are much longer than the median, each for itself; the others are
/// put in the order of their lengths, and one is chosen of each so many that follow each other. Ascending.
[[nodiscard]] std::vector<PricedStep> choose_priced_steps(const JobRows& rows);

}  // namespace cep::tool
