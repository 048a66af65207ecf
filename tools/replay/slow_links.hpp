// SPDX-License-Identifier: Apache-2.0
//
// Slow links: groups of ranks whose transfers take longer than the same transfers of other groups.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "replay/replayer.hpp"

namespace cep::tool {

struct SlowLinks {
    std::vector<std::uint32_t> ranks;  // of all slow groups, ascending
    std::uint16_t name = 0;            // of the phase in which they lose most
    double usual_ms = 0;               // of its transfers in the other groups
    double slow_ms = 0;
    std::uint64_t other_groups = 0;  // in it
    Scenario without;                // with a usual duration of these transfers
};

/// A transfer is what all ranks of a collective spend in it together: from the last start to the first end. Compared
/// are groups of one size in the same phase and place of the step. Where most groups would be slow, none is.
[[nodiscard]] std::optional<SlowLinks> find_slow_links(std::span<const StepGraph> graphs, const JobModel& model);

}  // namespace cep::tool
