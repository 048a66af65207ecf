// SPDX-License-Identifier: Apache-2.0
//
// Peer work: what ranks would take in a step if they were as fast as the others of their role.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "replay/replayer.hpp"

namespace cep::tool {

class PeerWork {
  public:
    explicit PeerWork(const JobModel& model);

    /// The local work of these ranks as in the median over their peers, of the same place in the same step: none of
    /// what most of them do not do. Where a rank is the only one of its role, over all. `prompt`: see Scenario.
    [[nodiscard]] Scenario without(const std::vector<std::uint32_t>& ranks, std::vector<bool> prompt) const;

  private:
    struct Values;

    const JobModel& model_;
    std::vector<std::uint32_t> place_of_;  // by key: the same phase, part and place in all roles
};

}  // namespace cep::tool
