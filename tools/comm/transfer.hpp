// SPDX-License-Identifier: Apache-2.0
//
// Transfer: what one collective took, without the waiting for its last rank.
#pragma once

#include <cstdint>
#include <vector>

namespace cep::comm {

struct Transfer {
    std::int64_t bytes = 0;
    std::int64_t step = 0;
    std::uint32_t group = 0;  // which of the groups that it is compared with
    double ms = 0;
    double wait_ms = 0;  // the mean over its ranks
};

using Transfers = std::vector<Transfer>;

}  // namespace cep::comm
