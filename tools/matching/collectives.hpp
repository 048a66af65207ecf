// SPDX-License-Identifier: Apache-2.0
//
// Collectives: which spans of different ranks are one collective, and those side by side.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/hash.hpp"

namespace cep::tool {

/// The same on all ranks of a collective, and in its step on no others. Ids of steps have nothing to do with each
/// other.
using CollectiveId = std::uint64_t;

/// `collective`: its number; 0 where no other rank has a span of it.
[[nodiscard]] constexpr CollectiveId collective_id(std::uint32_t collective, std::uint64_t name, std::uint32_t seq,
                                                   std::uint32_t rank) {
    constexpr CollectiveId is_alone = CollectiveId{1} << 63;
    return collective != 0 ? collective : mix_bits(mix_bits(name << 32 | seq) + rank) | is_alone;
}

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
