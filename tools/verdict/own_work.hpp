// SPDX-License-Identifier: Apache-2.0
//
// Own work: what each rank does in a step without waiting for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ledger/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// Milliseconds of local phases by rank and step. A phase whose row was lost counts with the median of its peers; one
/// that a rank does not do counts nothing.
[[nodiscard]] StepMatrix own_work(const JobTable& table, const std::vector<PeerGroup>& groups);

/// Where a rank has stopped recording, what ranks wait is not known: who waits for it would seem to wait for nobody.
void forget_waits(const EarlyEnd& end, JobTable& table);

/// Whether the step behind the one at a place was recorded. For what a rank does behind its last collective, the others
/// wait there.
[[nodiscard]] bool is_next_recorded(const std::vector<std::int64_t>& steps, std::size_t step);

}  // namespace cep::tool
