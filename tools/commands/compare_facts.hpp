// SPDX-License-Identifier: Apache-2.0
//
// Compare facts: what a comparison takes from one job.
#pragma once

#include <string>

#include "compare/comparison.hpp"
#include "model/job.hpp"
#include "verdict/verdict.hpp"

namespace cep::cli {

/// `name`: as on the command line; `side`: "A" or "B"; `command` begins messages. Throws what collect_steps() throws.
[[nodiscard]] compare::JobFacts compare_facts(std::string_view command, const std::string& side,
                                              const std::string& name, const tool::Job& job, tool::Verdict verdict);

}  // namespace cep::cli
