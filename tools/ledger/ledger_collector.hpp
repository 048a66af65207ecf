// SPDX-License-Identifier: Apache-2.0
//
// Ledger collector: takes the steps of a job's ranks as they are gone through, and makes the ledger of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ledger/ledger.hpp"
#include "ledger/piece_cutter.hpp"
#include "ledger/rank_timeline.hpp"
#include "ledger/step_segments.hpp"

namespace cep::tool {

inline constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

/// By index in `all`: the index in `some` of them, or `nowhere`; both ascend.
[[nodiscard]] std::vector<std::uint32_t> indices_in(const std::vector<std::int64_t>& all,
                                                    const std::vector<std::int64_t>& some);

/// What is seen of a rank's step, as no work hides it.
struct SeenTime {
    double wait_ms = 0;  // see Iteration
    double avoidable_ms = 0;
    double comm_ms = 0;
    double uncovered_ms = 0;                      // in no phase: inside of the step, and between it and the step before
    std::span<const std::uint32_t> launch_bound;  // phases of the rank, see PieceCutter
};

class RankCollector;

class LedgerCollector {
  public:
    /// `steps`: those of the job, ascending. The ledger is of all of them, or a random sample.
    LedgerCollector(const Job& job, const std::vector<std::int64_t>& steps, std::size_t ranks);

    /// Index of the phase in the ledger.
    [[nodiscard]] std::uint32_t index_of(const RankPhase& phase, TimeKind piece);
    /// Once, after all steps of all ranks.
    [[nodiscard]] Ledger finish(const std::vector<RankRole>& roles, std::optional<double> peak_flops);

  private:
    friend class RankCollector;

    [[nodiscard]] std::int64_t find_step_unit() const;
    void add_to_sum(std::uint32_t step, const LedgerStep& of_rank);
    [[nodiscard]] std::vector<std::uint32_t> sort_phases();

    const Job& job_;
    const std::vector<std::int64_t>& steps_;
    std::vector<std::uint32_t> kept_indices_;  // by step: its index in sums_, or nowhere
    std::vector<LedgerStep> sums_;             // of all steps, or a random sample of them
    std::int64_t step_unit_;
    std::vector<PhaseLedger> phases_;
    std::unordered_map<std::string_view, std::uint32_t> phase_places_;
    std::vector<std::pair<TimeKind, const NumberRanges*>> marks_;
    std::vector<RankTally> tallies_;  // by rank
    std::vector<RankLedger> ranks_;   // by rank, too
};

/// What one rank adds, step by step in their order. Threads may do that for different ranks at the same time.
class RankCollector {
  public:
    using TakeSeen = std::function<void(std::uint32_t step, const SeenTime& seen)>;

    /// `uses`: of its phases. All must outlive this.
    RankCollector(LedgerCollector& all, std::size_t rank, const std::vector<RunSeries>& all_series,
                  const std::vector<PhaseUse>& uses, PieceCutter& cutter, TakeSeen take_seen);

    void add_step(const StepSegments& step);
    /// Once, after its last step.
    void finish();

  private:
    void add_untimed(const StepSegments& step);
    void add_iteration(const Iteration& iteration);
    void add_outside();
    void add_seen(const Iteration& iteration);

    LedgerCollector& all_;
    RankTally& tally_;
    RankLedger& ledger_;
    RankTimeline timeline_;
    const std::vector<PhaseUse>& uses_;
    std::vector<std::int64_t> visible_ns_;  // by phase of the rank
    PieceCutter& cutter_;
    const TakeSeen take_seen_;
    std::int64_t gap_before_ns_ = 0;  // behind the rows of the step before, if no step lies between
};

}  // namespace cep::tool
