// SPDX-License-Identifier: Apache-2.0
#include "verdict/fail_condition.hpp"

#include <fmt/core.h>

#include <string_view>

#include "base/failure.hpp"
#include "base/text.hpp"

namespace cep::tool {
namespace {

bool is_known(std::string_view name) {
    constexpr std::string_view prefix = "bound:";
    if (!name.starts_with(prefix))
        return name == "straggler" || name == "imbalance" || name == "change" || name == "abstained";
    for (const Bound bound : {Bound::unknown, Bound::compute, Bound::comm, Bound::data, Bound::host, Bound::mixed})
        if (name.substr(prefix.size()) == bound_name(bound)) return true;
    return false;
}

}  // namespace

std::vector<FailCondition> parse_fail_conditions(const std::vector<std::string>& texts) {
    std::vector<FailCondition> conditions;
    for (const std::string& text : texts)
        for (const std::string_view name : split(text, ',')) {
            if (!is_known(name))
                throw UsageError(fmt::format(
                    "--fail-on: '{}' is not one of straggler, imbalance, change, abstained and bound:NAME", name));
            conditions.emplace_back(name);
        }
    return conditions;
}

bool is_in(const FailCondition& condition, const Verdict& verdict) {
    if (condition == "straggler") return verdict.names_ranks();
    if (condition == "imbalance") return verdict.first_of(FindingKind::stage) != nullptr;
    if (condition == "abstained") return verdict.abstained;
    if (condition == "change") return verdict.worst_change() != nullptr;
    return condition == "bound:" + std::string(bound_name(verdict.bound));
}

}  // namespace cep::tool
