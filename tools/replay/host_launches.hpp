// SPDX-License-Identifier: Apache-2.0
//
// Host launches: work that begins no sooner than its host launched it.
#pragma once

#include <vector>

#include "replay/pieces.hpp"

namespace cep::tool {

struct HostLaunch {
    const Piece* piece = nullptr;
    const Piece* after = nullptr;  // what the host did last; nullptr: the launch counts from the begin of the step
    double behind_ms = 0;          // it was launched so long behind that
};

/// Spans that stop no longer for others end earlier, and the next ones begin no sooner than their hosts launch them.
/// Where the device is idle at a launch, the host may have waited for it: then, and from there on, launches limit
/// nothing.
[[nodiscard]] std::vector<HostLaunch> find_host_launches(const RankPieces& pieces, double tolerance_ms);

}  // namespace cep::tool
