// SPDX-License-Identifier: Apache-2.0
//
// Hashing of 64-bit numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cep::tool {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford).
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return bits ^ (bits >> 31);
}

/// One of the places that a part has, if `count` places are divided into `parts` (no more than there are places) one
/// after the other. Of all parts, these are evenly spread; but a regular stride would meet what comes at every n-th
/// place always or never.
[[nodiscard]] constexpr std::size_t place_in_part(std::size_t part, std::size_t parts, std::size_t count) {
    const std::size_t first = part * count / parts;
    return first + mix_bits(part) % ((part + 1) * count / parts - first);
}

}  // namespace cep::tool
