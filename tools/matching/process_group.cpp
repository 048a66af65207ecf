// SPDX-License-Identifier: Apache-2.0
#include "matching/process_group.hpp"

#include <fmt/core.h>

namespace cep::tool {
namespace {

bool is_end_of_kind(char c) {
    return c == '.' || c == ':' || c == '[' || c == '(' || c == '/' || (c >= '0' && c <= '9');
}

}  // namespace

AxisCoordinates axis_coordinates_of(const RunInfo& run) {
    return {run.dp, run.tp, run.pp, run.cp};
}

std::string full_group_name(std::string_view group, const AxisCoordinates& coordinates) {
    std::string name(group);
    for_each_other_axis(group, coordinates, [&name](std::string_view axis, const std::optional<std::int64_t>& at) {
        if (at) name += fmt::format(".{}{}", axis, *at);
    });
    return name;
}

std::string group_kind(std::string_view group) {
    const auto* const end = std::find_if(group.begin(), group.end(), is_end_of_kind);
    std::string kind(group.begin(), end);
    while (!kind.empty() && (kind.back() == '_' || kind.back() == '-')) kind.pop_back();
    return kind;
}

}  // namespace cep::tool
