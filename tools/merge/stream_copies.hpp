// SPDX-License-Identifier: Apache-2.0
//
// Stream copies: temporary files with what inputs can give only once, for commands that read their inputs twice.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "merge/spill_file.hpp"
#include "read/inputs.hpp"

namespace cep::tool {

using StreamCopies = std::vector<std::unique_ptr<SpillFile>>;

/// Copies standard input, pipes and devices of the set into a directory, and names the copies in the set. They last as
/// long as what this returns. One that cannot be read stays as it is. Throws WriteError.
[[nodiscard]] StreamCopies copy_streams(InputSet& set, const std::string& directory);

}  // namespace cep::tool
