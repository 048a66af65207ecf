// SPDX-License-Identifier: Apache-2.0
//
// Peers: ranks of one role, which do the same work and are compared with each other only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "ledger/job_table.hpp"
#include "matching/operation.hpp"

namespace cep::tool {

struct PeerGroup {
    std::optional<std::int64_t> pp;  // pipeline stage
    std::optional<std::int64_t> tp;  // tensor-parallel position; none: ranks of all positions of the stage
    std::vector<std::size_t> ranks;  // indices into the table
};

/// Ranks of one pipeline stage and tensor-parallel position. Where these are too few to be compared, all of the stage.
/// `each_is_stage`: every rank is one.
[[nodiscard]] std::vector<PeerGroup> find_peers(const JobTable& table, bool each_is_stage = false);

/// What ranks do in their collectives.
[[nodiscard]] std::set<Operation> operations_of(const RankSeries& ranks);

}  // namespace cep::tool
