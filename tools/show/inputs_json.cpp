// SPDX-License-Identifier: Apache-2.0
#include "show/inputs_json.hpp"

namespace cep::tool {

void write_inputs(JsonWriter& json, const InputCounts& inputs, const Coverage& coverage) {
    json.members("files", inputs.files, "bytes", inputs.bytes, "rows", inputs.rows, "ranks_seen", coverage.ranks_seen,
                 "ranks_expected", coverage.ranks_expected, "missing_ranks", coverage.missing_ranks, "truncated_files",
                 inputs.truncated_files, "unreadable_files", inputs.unreadable_files, "skipped_rows",
                 inputs.skipped_rows);
}

}  // namespace cep::tool
