// SPDX-License-Identifier: Apache-2.0
//
// Data: the values that the script of a page shows under the pointer, and the cells that it enlarges.
#pragma once

#include <cstddef>
#include <string>

#include "report/heat.hpp"

namespace cep::report {

struct PageData {
    std::string json;          // may stand in a script element; "" where there is no room at all
    std::size_t left_out = 0;  // layers of the heat map that had no room
};

/// The layers of the heat map in their order, of at most `room` bytes.
///
/// {"colors": [255 pixels, from the neutral ground to the largest values],
///
///  "rows": {"label": ["5", "6–9"], "who": ["rank 5 · node0", …], "rank": [5, 6], "host": [0, 1], "blamed": [1, 0]},
///
///  "steps": {"first": [100, 110], "last": [100, 110]},
///
///  "layers": [{"phase": name, "measure": name, "title": text, "low": ms, "high": ms, "range": [ms, ms], "data": …}],
///
///  "bands": {"steps": …, "phases": [{"phase": name, "p10": [ms], "p50": …, "p90": …, "max": …, "rank": […]}]}}
///
/// Colours go from `low` to `high`, on a logarithmic scale. `data` is base64 of zlib's format: a byte for each row and
/// column, row after row. 0: none. 1: range[0] and less. Else range[0] * (range[1] / range[0]) ** ((byte − 1) / 254).
[[nodiscard]] PageData write_data(const JobView& view, const HeatMap& heat, std::size_t room);

}  // namespace cep::report
