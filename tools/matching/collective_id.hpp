// SPDX-License-Identifier: Apache-2.0
//
// Collective id: which spans of different ranks are one collective.
#pragma once

#include <cstdint>

#include "base/hash.hpp"

namespace cep::tool {

/// The same on all ranks of a collective, and in its step on no others. Ids of steps have nothing to do with each
/// other.
using CollectiveId = std::uint64_t;

/// `collective`: a hash of its group and number, or 0 where the row names none: then the n-th spans of one name are one
/// collective. `name`: a number that stands for the name on all ranks.
[[nodiscard]] constexpr CollectiveId collective_id(std::uint32_t collective, std::uint64_t name, std::uint32_t seq) {
    constexpr CollectiveId is_by_name = CollectiveId{1} << 63;
    return collective != 0 ? collective : mix_bits(name << 32 | seq) | is_by_name;
}

}  // namespace cep::tool
