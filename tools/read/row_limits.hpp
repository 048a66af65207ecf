// SPDX-License-Identifier: Apache-2.0
//
// Limits of the numbers in rows. A number beyond them is damage: the row is skipped. Within them, sums and differences
// of times in int64 nanoseconds cannot overflow.
#pragma once

#include <cstdint>
#include <string_view>

#include "read/row.hpp"

namespace cep::tool::limits {

inline constexpr std::int64_t max_time_ns = 4'000'000'000'000'000'000;  // UNIX time: the year 2096
inline constexpr double max_interval_ms = 1e11;                         // three years
inline constexpr std::int64_t max_bytes = std::int64_t{1} << 50;        // of one transfer
inline constexpr std::int64_t max_index = std::int64_t{1} << 62;        // differences of two fit
inline constexpr std::int64_t max_coordinate = INT32_MAX;               // in the parallel layout

/// The key of the first number that is out of its limits; "" for none.
[[nodiscard]] std::string_view find_excess(const Row& row);
[[nodiscard]] std::string_view find_excess(const RunInfo& run);
/// Whether the library can have written it.
[[nodiscard]] bool is_stride_change(const StrideChange& change);

}  // namespace cep::tool::limits
