// SPDX-License-Identifier: Apache-2.0
//
// Trace inputs: from the arguments of the command to the traces to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "read/inputs.hpp"

namespace cep::kernels {

/// Files, directories of traces (`*.json`, also `.gz` and `.zst`), globs and "-"; more of them, one a line, from
/// `files_from` unless it is empty. Throws UsageError.
[[nodiscard]] tool::InputSet find_traces(const std::vector<std::string>& arguments, const std::string& files_from);

/// The number behind the word "rank" in the file's name, else in its directory's: "rank3_trace.json", "rank_3/t.json".
[[nodiscard]] std::optional<std::int64_t> rank_of_trace_name(std::string_view path);

}  // namespace cep::kernels
