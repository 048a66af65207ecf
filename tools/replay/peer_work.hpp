// SPDX-License-Identifier: Apache-2.0
//
// Peer work: what ranks would take in a step if they were as fast as the others of their role.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/replayer.hpp"

namespace cep::tool {

/// The local work of these ranks as in the median over their peers, of the same place in the same step: none of what
/// most of them do not do. `prompt`: see Scenario. The model must outlive it.
[[nodiscard]] Scenario with_work_of_peers(const JobModel& model, const std::vector<std::uint32_t>& ranks,
                                          std::vector<bool> prompt);

}  // namespace cep::tool
