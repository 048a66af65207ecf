// SPDX-License-Identifier: Apache-2.0
//
// Own work: what each rank does in a step without waiting for others, and what a step would take without some ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

/// By rank of the table: which of its steps are slow, by step; empty for none.
using SlowSteps = std::vector<std::vector<bool>>;

/// The job without its slow ranks. A step ends when the slowest rank has done its own work, so that it would have ended
/// sooner by what the slowest of the slow ranks exceeds the slowest of the others by. In a pipeline, part of that
/// vanishes in the waiting that its schedule has anyway, and where communication runs beside work, in that; what is
/// left of it is at most what every rank of the same role waits for in collectives.
class WhatIf {
  public:
    WhatIf(const JobTable& table, const StepMatrix& own_ms, const std::vector<PeerGroup>& groups, const SlowSteps& slow,
           bool waits_inside);

    /// By how much one step would have been shorter; 0 where it is not known.
    [[nodiscard]] double saved_ms(std::size_t step) const;
    /// The same of one of the slow ranks, if it were the only one, and slow by `less_ms` less.
    [[nodiscard]] double saved_by_ms(std::size_t rank, std::size_t step, double less_ms = 0) const;

  private:
    void find_slowest_others();
    void find_least_waits(const StepMatrix& wait_ms, const PeerGroup& group);

    const std::vector<std::int64_t>& steps_;
    const StepMatrix& own_ms_;
    const SlowSteps& slow_;
    std::vector<std::size_t> slow_ranks_;
    std::vector<double> slowest_other_ms_;  // by step
    /// The least that ranks of a role wait that are not slow, by step; and of those that were not slow either in the
    /// step before, in the next step.
    struct LeastWaits {
        std::vector<double> in_step_ms;
        std::vector<double> in_next_ms;
    };
    std::vector<std::shared_ptr<const LeastWaits>> least_waits_;  // by rank, where what others wait is a bound
};

}  // namespace cep::tool
