// SPDX-License-Identifier: Apache-2.0
//
// Losses: what a job's time goes to beside compute, and what to do about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/ledger.hpp"
#include "model/job.hpp"

namespace cep::tool {

struct TimeLoss {
    TimeKind piece = TimeKind::other;
    double ms = 0;     // mean over ranks
    double share = 0;  // of the elapsed time
    double gpu_hours = 0;
    std::string phase;                // that most of it is in; "" for none
    std::string steps;                // "every 10th step, 0 to 390"; "" for all, or if that is not known
    std::vector<std::int64_t> ranks;  // that have the phase; empty for all
    std::string_view next;            // what to do
    std::string_view check;           // the command that shows whether it worked

    /// Phase, steps and ranks, as far as they are known.
    [[nodiscard]] std::string where() const;
    /// "checkpoints: 49 % of the time (save_checkpoint, every 10th step from 0 on)".
    [[nodiscard]] std::string describe() const;
};

inline constexpr double least_loss = 0.01;  // of the elapsed time; smaller ones are not named

/// The largest first.
[[nodiscard]] std::vector<TimeLoss> find_losses(const Job& job, const Ledger& ledger, std::size_t threads);

/// What to do about a piece, and the command that shows whether it worked, without full stops. docs/guide/advice.md has
/// the same with sources.
struct Advice {
    std::string_view next;
    std::string_view check;
};
[[nodiscard]] const Advice& advice_on(TimeKind piece);
[[nodiscard]] double gpu_hours(std::int64_t ns);

}  // namespace cep::tool
