// SPDX-License-Identifier: Apache-2.0
//
// Sample: what is kept of one span. A SampleList keeps it in columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "matching/process_group.hpp"
#include "read/row.hpp"

namespace cep::tool {

/// One span.
struct Sample {
    static constexpr std::int64_t no_start = std::numeric_limits<std::int64_t>::min();
    static constexpr std::uint32_t max_depth = 15;
    static constexpr std::uint32_t max_stream = 1023;
    static constexpr std::uint32_t max_seq = (1U << 18) - 1;

    /// A span's place in its step, as far as it is known. What is larger than there is room for becomes the maximum.
    [[nodiscard]] static std::uint32_t place_of(const Row& row) {
        return clamped(row.depth, max_depth) << 28 | clamped(row.stream, max_stream) << 18 | clamped(row.seq, max_seq);
    }
    /// The low half of the key of a collective; 0 where the row does not say. Half is enough, as keys are compared
    /// within one step only: of n collectives in a step, any two have the same with a chance of n² / 2^33. With 1,000
    /// that is one step in 8,600, with 10,000 one in 86; in that step, one of the two counts a wait that is too long.
    [[nodiscard]] static std::uint32_t collective_of(const Row& row, const RunInfo& run) {
        const std::optional<std::uint64_t> key = collective_key(row, run);
        return key ? std::max(1U, static_cast<std::uint32_t>(*key)) : 0;
    }

    [[nodiscard]] bool has_start() const { return start_ns != no_start; }
    [[nodiscard]] std::uint32_t seq() const { return place & max_seq; }
    [[nodiscard]] std::uint32_t stream() const { return place >> 18 & max_stream; }
    [[nodiscard]] std::uint32_t depth() const { return place >> 28; }
    [[nodiscard]] bool is_top_level() const { return is_top_level(place); }
    [[nodiscard]] static bool is_top_level(std::uint32_t place) { return place >> 28 == 0; }

    double duration_ms;
    std::int64_t start_ns;  // no_start where the row does not say
    float lag_ms;           // NaN where the row does not say
    std::uint32_t collective;
    std::uint32_t step_index;  // into RunSeries::steps
    std::uint32_t place;

  private:
    [[nodiscard]] static std::uint32_t clamped(const std::optional<std::int64_t>& value, std::uint32_t max) {
        const std::int64_t number = value.value_or(0);
        if (static_cast<std::uint64_t>(number) <= max) [[likely]]
            return static_cast<std::uint32_t>(number);
        return number < 0 ? 0 : max;
    }
};

}  // namespace cep::tool
