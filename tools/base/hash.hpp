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

/// An index in a segment, if `count` of them are divided into so many segments, no more than there are indices. Where
/// in its segment it is differs; a regular stride would meet what comes at every n-th index always or never.
[[nodiscard]] constexpr std::size_t index_in_segment(std::size_t segment, std::size_t segments, std::size_t count) {
    const std::size_t first = segment * count / segments;
    return first + mix_bits(segment) % ((segment + 1) * count / segments - first);
}

}  // namespace cep::tool
