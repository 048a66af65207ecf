// SPDX-License-Identifier: Apache-2.0
//
// Verdict text: a verdict as people read it, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "show/json_writer.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

struct VerdictText {
    std::string headline;               // what a tired person must know
    std::vector<std::string> evidence;  // why
    std::vector<std::string> next;      // what to do
};

[[nodiscard]] VerdictText verdict_text(const Verdict& verdict);
/// As a value.
void write_verdict(JsonWriter& json, const Verdict& verdict);
void write_efficiency(JsonWriter& json, const Efficiency& efficiency);

/// "straggler", "imbalance", "change" or "bound:comm": what a job may not have.
class FailCondition {
  public:
    /// Throws UsageError.
    [[nodiscard]] static FailCondition parse(std::string_view text);
    [[nodiscard]] bool is_in(const Verdict& verdict) const;
    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    std::string name_;
};

}  // namespace cep::tool
