// SPDX-License-Identifier: Apache-2.0
#include "check/remark.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace cep::tool {

bool Remarks::count(Severity severity, std::string_view code) {
    Counted& counted = counts_[std::string(code)];
    counted.severity = std::max(counted.severity, severity);
    return ++counted.count <= max_of_code;
}

void Remarks::add(Severity severity, std::string_view code, std::string message, std::uint64_t line) {
    if (count(severity, code)) findings_.push_back({severity, std::string(code), std::move(message), line});
}

std::vector<Remark> Remarks::finish() {
    for (const auto& [code, counted] : counts_)
        if (counted.count > max_of_code)
            findings_.push_back(
                {counted.severity, code, "and " + format_count(counted.count - max_of_code) + " more like it", 0});
    return std::move(findings_);
}

Severity worst_of(const std::vector<Remark>& findings) {
    Severity worst = Severity::fine;
    for (const Remark& finding : findings) worst = std::max(worst, finding.severity);
    return worst;
}

}  // namespace cep::tool
