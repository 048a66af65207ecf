// SPDX-License-Identifier: Apache-2.0
//
// Late hosts: ranks whose host launches work so late that the device is seldom behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/phase_series.hpp"
#include "replay/finding.hpp"

namespace cep::tool {

/// Whether a rank's device is far less behind its host than those of its peers. A rank with a slow device is further
/// behind. None if rows do not say, or hosts of peers are not ahead.
[[nodiscard]] std::optional<LateHost> find_late_host(const RankSeries& ranks, std::int64_t rank,
                                                     const std::vector<std::int64_t>& peers);

}  // namespace cep::tool
