// SPDX-License-Identifier: Apache-2.0
//
// Stride changes: where the library recorded fewer steps than it was asked for, to keep its cost below a bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/number_ranges.hpp"
#include "model/job.hpp"

namespace cep::tool {

/// Ranks whose stride was changed alike.
struct StrideChangeGroup {
    std::int64_t from = 1;  // the user's stride
    std::int64_t to = 1;    // after the last change
    double max_percent = 0;
    NumberRanges steps;  // of the last changes
    NumberRanges ranks;
};

/// By strides. A rank whose stride came back to the user's is left out.
[[nodiscard]] std::vector<StrideChangeGroup> find_stride_changes(const Job& job);
/// A line for each of the first groups; the last line says how many more there are.
[[nodiscard]] std::vector<std::string> describe_stride_changes(const std::vector<StrideChangeGroup>& groups,
                                                               std::size_t all_ranks);

}  // namespace cep::tool
