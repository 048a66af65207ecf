// SPDX-License-Identifier: Apache-2.0
//
// Fail conditions: findings that a job may not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "verdict/verdict.hpp"

namespace cep::tool {

/// "straggler", "imbalance", "change", "abstained" or "bound:comm".
class FailCondition {
  public:
    /// Each text is one condition or several with commas between them. Throws UsageError.
    [[nodiscard]] static std::vector<FailCondition> parse(const std::vector<std::string>& texts);
    [[nodiscard]] bool is_in(const Verdict& verdict) const;
    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    explicit FailCondition(std::string_view name) : name_(name) {}

    std::string name_;
};

}  // namespace cep::tool
