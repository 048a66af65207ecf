// SPDX-License-Identifier: Apache-2.0
//
// Own work: what each rank does in a step without waiting for others; and where a rank has no row of a phase, whether
// it does not do the phase or its row was lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ledger/job_table.hpp"
#include "verdict/peers.hpp"

namespace cep::tool {

/// One phase of the ranks of one role.
struct RolePhase {
    /// Own milliseconds by peer and step: 0 where the rank does not do the phase, NaN where its row was lost.
    StepMatrix own_ms;
    bool is_of_some = false;  // some ranks do not do it, or not in all steps in which others do
    std::size_t ranks = 0;    // that have any row of it
};

class AbsentRows {
  public:
    explicit AbsentRows(const JobTable& table);

    /// `phase`: index into JobTable::local.
    [[nodiscard]] RolePhase find(std::size_t phase, const PeerGroup& role) const;
    /// In how many steps a rank has a row of the phase.
    [[nodiscard]] std::size_t rows_of(std::size_t phase, std::size_t rank) const { return rows_[phase][rank]; }

  private:
    /// By rank, a number of steps.
    using StepCounts = std::vector<std::size_t>;

    [[nodiscard]] const StepCounts& most_rows_of_kind(std::size_t phase) const;
    [[nodiscard]] bool are_lost(std::size_t phase, std::size_t rank) const;

    const JobTable& table_;
    std::vector<StepCounts> rows_;    // by phase
    StepCounts most_rows_;            // of the phase of which a rank has most
    StepCounts most_rows_of_device_;  // the same of phases of kind compute
    StepCounts steps_;                // in which a rank has any row
};

/// Own milliseconds of the ranks of a role as they are in the table, by peer and step.
[[nodiscard]] StepMatrix rows_of_role(const StepMatrix& ms, const PeerGroup& role);

/// Milliseconds of local phases by rank and step. A phase whose row was lost counts with the median of its peers; one
/// that a rank does not do counts nothing.
[[nodiscard]] StepMatrix own_work(const JobTable& table, const AbsentRows& absent,
                                  const std::vector<PeerGroup>& groups);

/// In steps in which what ranks wait says nothing of who is slow in training: where a rank has stopped recording, who
/// waits for it would seem to wait for nobody; at start-up, ranks wait until communication is set up.
void forget_waits(const std::function<bool(std::int64_t step)>& is_of_them, JobTable& table);

}  // namespace cep::tool
