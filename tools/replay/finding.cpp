// SPDX-License-Identifier: Apache-2.0
#include "replay/finding.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.hpp"

namespace cep::tool {

std::string name_of(const std::vector<std::int64_t>& ranks, const std::vector<std::string>& hosts) {
    constexpr std::size_t most_named = 5;
    std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", format_ranges(ranks, most_named));
    if (hosts.empty() || hosts.front().empty()) return text;
    for (std::size_t i = 0; i < std::min(hosts.size(), most_named); ++i) text += (i == 0 ? " (" : ", ") + hosts[i];
    return text + (hosts.size() > most_named ? ", …)" : ")");
}

std::string Finding::phase_text() const {
    return phase == uncovered_name ? "time that no phase covers" : phase;
}

bool Finding::is_slow_uncovered() const {
    return phase == uncovered_name || std::find(also.begin(), also.end(), uncovered_name) != also.end();
}

}  // namespace cep::tool
