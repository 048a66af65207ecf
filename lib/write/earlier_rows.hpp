// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cep {

/// What earlier starts of this rank left at the end of its file.
struct EarlierRows {
    std::int64_t attempt = 0;  ///< number of the last start; 0: none found
    bool broken_line = false;  ///< the last line is cut off
};

/// Searches an open file of that size backwards from its end. The search is bounded, because a writer writes a row with
/// its attempt at least every stats_interval_bytes.
[[nodiscard]] EarlierRows read_earlier_rows(int fd, std::int64_t size_bytes);

inline constexpr std::int64_t stats_interval_bytes = std::int64_t{4} << 20;

}  // namespace cep
