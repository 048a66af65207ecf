// SPDX-License-Identifier: Apache-2.0
//
// What-if: what the replay of the steps found, as the parts of a waterfall.
#pragma once

#include <string>
#include <vector>

#include "replay/replay.hpp"
#include "verdict/verdict.hpp"

namespace cep::report {

struct Loss {
    std::string label;
    double ms = 0;  // of a step
};

/// From the replayed step to the ideal one; they sum to the difference.
[[nodiscard]] std::vector<Loss> losses_of(const tool::Replay& replay);
/// "rank 5", "host node3", "pipeline stage 2", "uneven micro-batches".
[[nodiscard]] std::string name_cause(const tool::Cause& cause);
/// Why there is nothing to show; "" where there is.
[[nodiscard]] std::string why_no_replay(const tool::Replay& replay);

}  // namespace cep::report
