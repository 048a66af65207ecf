// SPDX-License-Identifier: Apache-2.0
//
// Inner launches: communication that begins on other streams inside of a span of work. They show how much work it is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cep::tool {

/// Communication that begins so soon after the one before it on its stream was held up by that.
[[nodiscard]] inline double held_up_within_ms(double length_before_ms, double tolerance_ms) {
    constexpr double share = 0.15;
    return std::max(5 * tolerance_ms, share * length_before_ms);
}

/// `Time`: an integer of nanoseconds, or a double of milliseconds.
template <typename Time>
struct InnerLaunch {
    std::uint64_t key = 0;  // which one it is in each step
    Time after{};           // the begin of the span
    bool is_free = false;   // it began when the work was ready for it: nothing held it up
};

/// By key: at which shares of the work until the last launch they come.
using LaunchShares = std::unordered_map<std::uint64_t, std::vector<double>>;

/// Adds those of one span, in order. Only a last one that is free shows how much work there is.
template <typename Launches>
void add_shares(const Launches& launches, LaunchShares& shares) {
    const auto& last = launches.back();
    if (!last.is_free || !(last.after > 0)) return;
    for (const auto& one : launches)
        if (one.is_free) shares[one.key].push_back(static_cast<double>(one.after) / static_cast<double>(last.after));
}

/// The work of a span of which this launch comes at a share, in the unit of `after`; NaN where it does not tell.
template <typename Time>
[[nodiscard]] double work_told_by(const InnerLaunch<Time>& launch, double share) {
    constexpr double least_share = 0.05;
    return launch.is_free && share > least_share ? static_cast<double>(launch.after) / share : NAN;
}

}  // namespace cep::tool
