// SPDX-License-Identifier: Apache-2.0
//
// The block of JSON that says what was read. Every command that reads rows writes the same.
#pragma once

#include "read/coverage.hpp"
#include "show/json_writer.hpp"

namespace cep::tool {

/// The keys of the block, inside of an object that the caller has begun: files, bytes, rows, ranks_seen,
/// ranks_expected, missing_ranks, truncated_files, unreadable_files, skipped_rows.
void write_inputs(JsonWriter& json, const InputCounts& inputs, const Coverage& coverage);

}  // namespace cep::tool
