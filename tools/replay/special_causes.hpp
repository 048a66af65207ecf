// SPDX-License-Identifier: Apache-2.0
//
// Causes: what makes the steps of a job longer than those of a balanced job, and the searches for each.
#pragma once

#include <optional>
#include <vector>

#include "replay/job_replay.hpp"

namespace cep::tool {

/// Fills in everything but the first fields of the replay. `findings`: see replay().
void find_causes(const JobReplay& steps, Replay& replay, std::vector<Finding>& findings);

/// A cause that one kind of work shows by itself, whatever all ranks of a role do in common.
struct SpecialCause {
    Finding finding;   // without what it costs
    Scenario without;  // that work with usual durations
};

/// Groups of ranks whose transfers take longer than the same transfers of other groups. A transfer is what all ranks of
/// a collective spend in it together: from the last start to the first end. Compared are groups of one size in the same
/// phase and position in the step. Where most groups would be slow, none is.
[[nodiscard]] std::optional<SpecialCause> find_slow_links(const JobReplay& steps);

/// Those of the special kind: find_<name>() for each <name>.cpp that meson.build lists.
using SpecialSearch = std::optional<SpecialCause>(const JobReplay& steps);
#define SEARCH(name) SpecialSearch find_##name;
CEP_SPECIAL_CAUSES
#undef SEARCH
#define SEARCH(name) find_##name,
inline constexpr SpecialSearch* special_searches[] = {CEP_SPECIAL_CAUSES};
#undef SEARCH

/// By key: whether it is work that ranks send each other, as tokens to experts: it is between an all-to-all that takes
/// it there and one that brings it back.
[[nodiscard]] std::vector<bool> find_routed_keys(const JobModel& model);
/// That work as it is, against the same work spread evenly over the ranks.
[[nodiscard]] std::optional<SpecialCause> find_routed_work(const JobReplay& steps, const std::vector<bool>& is_routed);

/// Work that takes much longer than usual now and then, on any rank; or on one of them, if so many pauses are no
/// chance.
[[nodiscard]] std::optional<SpecialCause> find_pauses(const JobReplay& steps);

/// The correlation between the two phases with the most local work: of the same position in the same step of a rank,
/// after what the rank, the step and the position explain. Work that depends on the data makes both phases of a
/// micro-batch longer; jitter does not know micro-batches. Nor do slow ranks (`is_slow`, by rank), which are left out.
/// As r².
[[nodiscard]] double data_correlation(const JobReplay& steps, const std::vector<bool>& is_slow);

/// Drops those of `slow`, which are stragglers and groups, that are not slow, but have more of the work that is to be
/// spread evenly: that of a stage all of whose ranks are slow, if `has_stage`; or routed work (`is_routed`, by key).
/// Returns all that cost enough together, if any do, with what that is in the replay's `saving`.
[[nodiscard]] std::optional<Finding> price_slow_ranks(const JobReplay& steps, bool has_stage,
                                                      const std::vector<bool>& is_routed, std::vector<Finding>& slow,
                                                      Replay& replay);

}  // namespace cep::tool
