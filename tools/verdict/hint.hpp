// SPDX-License-Identifier: Apache-2.0
//
// Hint: of steps that are too few for a verdict, the rank that stands out in all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

struct Hint {
    std::int64_t rank = 0;
    std::string host;  // "" if not known
    std::string phase;
    double own_ms = 0;    // a step, in the median
    double peers_ms = 0;  // the same of the median peer
};

/// Of the ranks that in every step take clearly longer in a phase than the median of at least two peers, the one that
/// exceeds it most. Chance does that too: it is no verdict.
[[nodiscard]] std::optional<Hint> find_hint(const JobTable& table, const std::vector<PeerGroup>& groups);

}  // namespace cep::tool
