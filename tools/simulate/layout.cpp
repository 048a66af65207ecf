// SPDX-License-Identifier: Apache-2.0
#include "simulate/layout.hpp"

namespace cep::simulation {
namespace {

std::string coordinate(const char* name, std::size_t value, std::size_t size) {
    return size > 1 ? std::string(".") + name + std::to_string(value) : std::string();
}

}  // namespace

std::string Layout::group_name(std::size_t group) const {
    const bool of_dp = group < tp * pp;
    const bool of_tp = !of_dp && group < tp * pp + dp * pp;
    if (plain_groups_) return of_dp ? "dp" : (of_tp ? "tp" : "pp");
    if (of_dp) return "dp" + coordinate("tp", group % tp, tp) + coordinate("pp", group / tp, pp);
    if (of_tp) {
        const std::size_t index = group - tp * pp;
        return "tp" + coordinate("dp", index % dp, dp) + coordinate("pp", index / dp, pp);
    }
    const Coordinates at = coordinates_of(group - tp * pp - dp * pp);
    return "pp" + std::to_string(at.pp) + "-" + std::to_string(at.pp + 1) + coordinate("dp", at.dp, dp) +
           coordinate("tp", at.tp, tp);
}

}  // namespace cep::simulation
