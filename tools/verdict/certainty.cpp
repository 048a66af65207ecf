// SPDX-License-Identifier: Apache-2.0
#include "verdict/certainty.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "verdict/causes.hpp"

namespace cep::tool {
namespace {

/// `chance`: that noise alone makes a rank of the job look as slow as that.
std::string describe_chance(double chance) {
    constexpr double certain = 1e-4;
    constexpr double likely = 1e-2;
    if (chance <= certain)
        return "almost certain: chance alone makes a rank look like this in fewer than 1 of 10,000 jobs";
    return fmt::format("{}: chance alone makes a rank look like this in 1 of {} jobs",
                       chance <= likely ? "very likely" : "likely",
                       format_count(static_cast<std::uint64_t>(std::lround(1 / std::min(chance, 1.0)))));
}

std::string describe_replay(const Replay& replay) {
    const double percent = 100 * std::abs(replay.error);
    if (replay.holds())
        return fmt::format("replayed from its rows, a step takes as long as it did{}",
                           percent < 0.1 ? "" : fmt::format(" to within {:.1f} %", percent));
    return fmt::format("approximate: replayed from its rows, a step takes {:.0f} % {} than it did", percent,
                       replay.error < 0 ? "less" : "more");
}

}  // namespace

std::string describe_certainty(const Verdict& verdict) {
    if (verdict.abstained) return "";
    if (const Findings slow = verdict.stragglers(); !slow.empty() && slow.front()->confidence > 0)
        return describe_chance(1 - slow.front()->confidence);
    if (headline_cause(verdict) != nullptr && verdict.replay.is_usable()) return describe_replay(verdict.replay);
    return "";
}

}  // namespace cep::tool
