// SPDX-License-Identifier: Apache-2.0
//
// Verdict document: a verdict in sentences, and as JSON.
#pragma once

#include <string>

#include "show/document.hpp"
#include "show/json_writer.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// The headline, the evidence and what to do next. The rest is for the caller to fill in.
[[nodiscard]] Document verdict_document(const Verdict& verdict);

/// Which phases the verdict takes as one, in a sentence without a full stop; "" where it takes each by itself.
[[nodiscard]] std::string describe_folded_phases(const Verdict& verdict);

/// As values.
void write_verdict(JsonWriter& json, const Verdict& verdict);
void write_efficiency(JsonWriter& json, const Efficiency& efficiency);

}  // namespace cep::tool
