// SPDX-License-Identifier: Apache-2.0
//
// Settings: what the framework and the machine of each rank were told, from its run row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

using Settings = std::vector<std::pair<std::string, std::string>>;  // name and value, in the order of the run row

/// A setting that is not the same on all ranks that have settings.
struct DifferingSetting {
    std::string name;
    std::string usual;  // on most ranks; "" where these do not have it
    std::string odd;    // of the lowest rank where it is another
    std::vector<std::int64_t> odd_ranks;
};

struct JobSettings {
    Settings usual;  // those of most ranks
    std::vector<DifferingSetting> differing;

    /// "" where there is none of that name.
    [[nodiscard]] std::string_view value_of(std::string_view name) const;
};

/// The settings of the last attempt of each rank.
[[nodiscard]] JobSettings find_settings(const RankSeries& ranks);

}  // namespace cep::tool
