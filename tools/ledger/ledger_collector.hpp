// SPDX-License-Identifier: Apache-2.0
//
// Ledger collector: takes the steps of a job's ranks as they are gone through, and makes the ledger of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ledger/ledger.hpp"
#include "ledger/piece_cutter.hpp"
#include "ledger/rank_steps.hpp"
#include "ledger/rank_timeline.hpp"

namespace cep::tool {

inline constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

/// By index in `all`: the index in `some` of them, or `nowhere`; both ascend.
[[nodiscard]] std::vector<std::uint32_t> indices_in(const std::vector<std::int64_t>& all,
                                                    const std::vector<std::int64_t>& some);

class LedgerCollector {
  public:
    /// `steps`: those of the job, ascending. The ledger is of all of them, or a random sample.
    LedgerCollector(const Job& job, const std::vector<std::int64_t>& steps);

    /// Index of the phase in the ledger.
    [[nodiscard]] std::uint32_t index_of(const RankPhase& phase, TimeKind piece);
    /// Rank by rank, once all phases have their indices; `indices`: of the rank's phases. Both must outlive this.
    void add_rank(const std::vector<RunSeries>& all_series, const std::vector<std::uint32_t>& indices);

    /// The steps of a rank in their order, by one thread at a time. Threads may add those of different ranks.
    void add_step(std::size_t rank, std::uint32_t step, const RankStep& of_rank, PieceCutter& cutter);
    /// Once, after all steps.
    [[nodiscard]] Ledger finish(const std::vector<RankRole>& roles, std::optional<double> peak_flops);

  private:
    /// What is known of a rank from one step to the next.
    struct RankState {
        RankTimeline timeline;
        const std::vector<std::uint32_t>* indices;
        std::vector<std::int64_t> visible_ns;  // by phase of the rank
    };

    [[nodiscard]] std::int64_t find_step_unit() const;
    void add_untimed(std::size_t rank, std::uint32_t step, const RankStep& of_rank);
    void drop_untimed(std::size_t rank);
    void add_iteration(std::size_t rank, const Iteration& iteration);
    void add_to_sum(std::uint32_t step, const LedgerStep& of_rank);
    void finish_rank(std::size_t index);
    [[nodiscard]] std::vector<std::uint32_t> sort_phases();
    [[nodiscard]] Ledger start_ledger();

    const Job& job_;
    const std::vector<std::int64_t>& steps_;
    std::vector<std::uint32_t> kept_indices_;  // by step: its index in sums_, or nowhere
    std::vector<LedgerStep> sums_;             // of all steps, or a random sample of them
    std::int64_t step_unit_;
    std::vector<PhaseLedger> phases_;
    std::unordered_map<std::string_view, std::uint32_t> phase_places_;
    std::vector<std::pair<TimeKind, const NumberRanges*>> marks_;
    std::vector<RankState> states_;
    std::vector<RankTally> tallies_;  // by rank, too
    std::vector<RankLedger> ranks_;   // by rank, too
};

}  // namespace cep::tool
