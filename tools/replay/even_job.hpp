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

/// What work usually takes on a rank. If no rank is slow, they differ by chance, which is part of what varies within
/// them. What few do is no chance.
[[nodiscard]] inline float usual_ms(const ReplayedSteps& steps, std::uint32_t key, std::uint32_t rank, bool any_slow) {
    return any_slow || steps.model.is_of_few(key) ? steps.typical.of_rank(key, rank) : steps.typical.of_role(key);
}

/// Fills in what the replay says of an even job, too. `any_slow`: ranks are.
[[nodiscard]] EvenJob find_even_job(const ReplayedSteps& steps, bool any_slow, Replay& replay);

}  // namespace cep::tool
