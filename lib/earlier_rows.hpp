// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cep {

/// What earlier starts left at the end of a rank file.
struct EarlierRows {
    std::int64_t attempt = 0;  ///< the last start's number; 0: none found
    bool broken_line = false;  ///< the last line is cut off
};

/// Searches backwards from the end of an open file of that size, over a bounded distance: a writer leaves a row that
/// names its attempt at least every stats_interval_bytes.
[[nodiscard]] EarlierRows read_earlier_rows(int fd, std::int64_t size_bytes);

inline constexpr std::int64_t stats_interval_bytes = std::int64_t{4} << 20;

}  // namespace cep
