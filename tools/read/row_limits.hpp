// SPDX-License-Identifier: Apache-2.0
//
// Limits of the numbers in rows. A number beyond them is damage: the row is skipped. Within them, sums and differences
// of times in int64 nanoseconds cannot overflow.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "read/row.hpp"

namespace cep::tool::limits {

inline constexpr std::int64_t max_time_ns = 4'000'000'000'000'000'000;  // UNIX time: the year 2096
inline constexpr double max_interval_ms = 1e11;                         // three years
inline constexpr std::int64_t max_bytes = std::int64_t{1} << 50;        // of one transfer
inline constexpr std::int64_t max_index = std::int64_t{1} << 62;        // differences of two fit
inline constexpr std::int64_t max_coordinate = INT32_MAX;               // in the parallel layout

struct IntegerLimit {
    std::string_view key;
    std::optional<std::int64_t> Row::*member;
    std::int64_t least;
    std::int64_t most;
};

inline constexpr std::array<IntegerLimit, 8> integers = {{
    {"step", &Row::step, INT64_MIN, INT64_MAX},
    {"rank", &Row::rank, 0, max_index},
    {"start_ns", &Row::start_ns, -max_time_ns, max_time_ns},
    {"seq", &Row::seq, -max_index, max_index},
    {"depth", &Row::depth, -max_index, max_index},
    {"stream", &Row::stream, INT64_MIN, INT64_MAX},
    {"bytes", &Row::bytes, -max_bytes, max_bytes},
    {"coll", &Row::coll, -max_index, max_index},
}};

struct DecimalLimit {
    std::string_view key;
    double Row::*member;
    double least;
    double most;
};

inline constexpr std::array<DecimalLimit, 3> decimals = {{
    {"duration_ms", &Row::duration_ms, 0, max_interval_ms},
    {"elapsed_ms", &Row::elapsed_ms, -max_interval_ms, max_interval_ms},
    {"value", &Row::value, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()},
}};

/// The key of the first number that is out of its limits; "" for none.
[[nodiscard]] std::string_view find_excess(const Row& row);
[[nodiscard]] std::string_view find_excess(const RunInfo& run);
/// Whether the library can have written it.
[[nodiscard]] bool is_stride_change(const StrideChange& change);

}  // namespace cep::tool::limits
