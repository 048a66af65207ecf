// SPDX-License-Identifier: Apache-2.0
//
// Even job: what steps would take if their work were even, its sources evened out one after the other.
#pragma once

#include <vector>

#include "replay/replay.hpp"
#include "replay/replayed_steps.hpp"

namespace cep::tool {

struct EvenJob {
    double as_it_was_ms = 0;  // a step, replayed
    double loss_ms = 0;       // against one with typical durations
    double comm_saving_ms = 0;
    double within_saving_ms = 0;
    double stage_saving_ms = 0;
    std::vector<float> role_medians_ms;  // by key: over the means of ranks; 0 of what few of them do
    std::vector<float> even_ms;          // by key: the mean of these over stages

    [[nodiscard]] double share_of(double saving_ms) const {
        return loss_ms > 0 ? std::min(1.0, saving_ms / loss_ms) : 0;
    }
};

/// Ranks that are slow, in all or some of their steps.
struct SlowRanks {
    std::vector<bool> is_slow;  // by rank
    bool any = false;
};

/// What local work usually takes. If no rank is slow, they differ by chance, which is part of what varies within them;
/// what few do is no chance. How a slow rank varies is how slow it is.
[[nodiscard]] inline float usual_ms(const ReplayedSteps& steps, const SlowRanks& slow, const StepGraph& graph,
                                    std::size_t node) {
    const std::uint32_t key = graph.keys[node];
    const std::uint32_t rank = graph.ranks[node];
    if (slow.is_slow[rank]) return graph.own_ms[node];
    return slow.any || steps.model.is_of_few(key) ? steps.typical.of_rank(key, rank) : steps.typical.of_role(key);
}

/// Fills in what the replay says of an even job, too.
[[nodiscard]] EvenJob find_even_job(const ReplayedSteps& steps, const SlowRanks& slow, Replay& replay);

}  // namespace cep::tool
