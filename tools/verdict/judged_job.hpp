// SPDX-License-Identifier: Apache-2.0
//
// Judged job: what is known of a job before it is judged, and what its verdict says when the replay has priced it.
#pragma once

#include <set>
#include <vector>

#include "ledger/job_table.hpp"
#include "matching/operation.hpp"
#include "model/job.hpp"
#include "verdict/peers.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

struct JudgedJob {
    const Job& job;
    JobTable table{};
    std::vector<PeerGroup> groups{};
    StepMatrix own_ms{};
    std::set<Operation> operations{};
};

/// After the replay: sorts the findings by what they cost, and sets what all slow ranks cost together.
void set_saving(const JudgedJob& judged, Verdict& verdict);

/// With few peers, ranks are not compared; the graph of the steps shows more than comparing does. Takes back an
/// abstention where a cause is certain, and sets what it costs.
void settle(const JudgedJob& judged, Verdict& verdict);

/// What ranks cost that are slow and waited for, however little that is, by step of the table.
[[nodiscard]] std::vector<double> explained_ms(const JudgedJob& judged, const Verdict& verdict);

/// Nobody is slow among the ranks that were seen. Makes the verdict abstain, or name the rank for which the others
/// wait, if it is not.
void find_reasons_to_abstain(const JudgedJob& judged, Verdict& verdict);

}  // namespace cep::tool
