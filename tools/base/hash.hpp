// SPDX-License-Identifier: Apache-2.0
//
// Hashing of 64-bit numbers.
#pragma once

#include <cstdint>

namespace cep::tool {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford).
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    return bits ^ (bits >> 31);
}

}  // namespace cep::tool
