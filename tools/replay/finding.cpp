// SPDX-License-Identifier: Apache-2.0
#include "replay/finding.hpp"

#include <array>

namespace cep::tool {

std::string_view kind_name(FindingKind kind) {
    constexpr std::array<std::string_view, 14> names = {
        "straggler",     "group",  "late",          "imbalance", "ranks",  "host",    "stage",
        "micro_batches", "jitter", "communication", "link",      "loader", "routing", "jitter"};
    return names[static_cast<std::size_t>(kind)];
}

std::string_view pattern_name(Pattern pattern) {
    constexpr std::array<std::string_view, 3> names = {"persistent", "intermittent", "window"};
    return names[static_cast<std::size_t>(pattern)];
}

}  // namespace cep::tool
