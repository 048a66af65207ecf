// SPDX-License-Identifier: Apache-2.0
//
// Causes: what the replay of the steps adds to a verdict, and how it is said.
#pragma once

#include <cstddef>
#include <string>

#include "show/document.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// Replays the job, and completes the verdict with what that shows.
void explain(const Job& job, std::size_t threads, Verdict& verdict);

/// The cause that the headline names; nullptr if it names none, or a straggler as it is found without a replay.
[[nodiscard]] const Cause* headline_cause(const Verdict& verdict);
/// "" without such a cause.
[[nodiscard]] std::string headline_of_cause(const Verdict& verdict);

/// What a chart calls it: "rank 5 (node1)", "uneven routing".
[[nodiscard]] std::string label_of(const Cause& cause);

/// With a capital in front.
[[nodiscard]] std::string capitalised(std::string text);

/// Evidence, and what to do.
void add_causes(Document& document, const Verdict& verdict);
/// The keys "replay" and "causes".
void write_causes(JsonWriter& json, const Verdict& verdict);

}  // namespace cep::tool
