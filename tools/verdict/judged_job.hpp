// SPDX-License-Identifier: Apache-2.0
//
// Judged job: what is known of a job before it is judged.
#pragma once

#include <set>
#include <vector>

#include "ledger/job_table.hpp"
#include "matching/operation.hpp"
#include "model/job.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

struct JudgedJob {
    const Job& job;
    JobTable table{};
    std::vector<PeerGroup> groups{};
    StepMatrix own_ms{};
    std::set<Operation> operations{};
    bool waits_inside = false;  // see Stragglers
};

}  // namespace cep::tool
