// SPDX-License-Identifier: Apache-2.0
//
// Members: what different ranks recorded of one collective, side by side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

namespace cep::tool {

/// Sorts parts of collectives of one step, which have an `id` and a `rank`: by id, then by rank, then by `order_of`.
template <typename Part, typename OrderOf>
void sort_by_collective(std::vector<Part>& parts, OrderOf order_of) {
    std::sort(parts.begin(), parts.end(), [&order_of](const Part& a, const Part& b) {
        return a.id != b.id ? a.id < b.id : a.rank != b.rank ? a.rank < b.rank : order_of(a) < order_of(b);
    });
}

/// Calls `use(members)` for each collective of sorted parts.
template <typename Parts, typename Use>
void for_each_collective(const Parts& sorted, Use use) {
    const std::span parts(std::data(sorted), std::size(sorted));
    for (std::size_t first = 0, last = 0; first < parts.size(); first = last) {
        while (last < parts.size() && parts[last].id == parts[first].id) ++last;
        use(parts.subspan(first, last - first));
    }
}

}  // namespace cep::tool
