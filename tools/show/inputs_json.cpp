// SPDX-License-Identifier: Apache-2.0
#include "show/inputs_json.hpp"

namespace cep::tool {

void write_inputs(JsonWriter& json, const InputCounts& inputs, const Coverage& coverage) {
    json.key("files").count(inputs.files);
    json.key("bytes").count(inputs.bytes);
    json.key("rows").count(inputs.rows);
    json.key("ranks_seen").count(coverage.ranks_seen);
    json.key("ranks_expected").count_or_null(coverage.ranks_expected);
    json.key("missing_ranks").integers(coverage.missing_ranks);
    json.key("truncated_files").count(inputs.truncated_files);
    json.key("unreadable_files").count(inputs.unreadable_files);
    json.key("skipped_rows").count(inputs.skipped_rows);
}

}  // namespace cep::tool
