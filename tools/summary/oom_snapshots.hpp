// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of memory that cep.torch.snapshot_on_oom() wrote when a rank ran out of it.
#pragma once

#include <string>
#include <vector>

#include "read/inputs.hpp"

namespace cep::tool {

/// Paths of those that lie beside the rank files, by the order of these.
[[nodiscard]] std::vector<std::string> find_oom_snapshots(const InputSet& inputs);

}  // namespace cep::tool
