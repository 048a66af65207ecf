// SPDX-License-Identifier: Apache-2.0
//
// Sample: what is kept of one span.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "read/row.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

/// One span.
struct Sample {
    static constexpr std::int64_t no_start = std::numeric_limits<std::int64_t>::min();
    static constexpr std::uint32_t max_depth = 15;
    static constexpr std::uint32_t max_stream = 1023;
    static constexpr std::uint32_t max_seq = (1U << 17) - 1;
    static constexpr std::uint32_t flag = 1U << 17;

    /// A span's place in its step, as far as it is known. What is larger than there is room for becomes the maximum.
    /// `is_behind_step`: its row stands behind that of the step span.
    [[nodiscard]] static std::uint32_t place_of(const Row& row, bool is_behind_step) {
        const bool is_flagged = row.start_ns ? is_host_paced(row) : is_behind_step;
        return clamped(row.depth, max_depth) << 28 | clamped(row.stream, max_stream) << 18 | (is_flagged ? flag : 0) |
               clamped(row.seq, max_seq);
    }
    /// The device began it as soon as it was launched, and had done it about when the host had launched all of it: the
    /// span is as long as the host's work. (A span that ends by waiting for the device looks the same.)
    [[nodiscard]] static bool is_host_paced(const Row& row) {
        constexpr double least_lag_ms = 0.02;  // a launch takes a quarter of it
        constexpr double small_lag = 0.05;     // of the duration
        constexpr double small_rest = 0.1;     // of the duration: what the device does after the host is done
        if (row.clock != Clock::gpu || !row.lag_ms || !row.host_ms) return false;
        return *row.lag_ms <= std::max(least_lag_ms, small_lag * row.duration_ms) &&
               row.duration_ms + *row.lag_ms - *row.host_ms <= small_rest * row.duration_ms;
    }
    /// What is kept of a key until collectives are numbered. Half is enough, as keys are compared within one step only:
    /// of n collectives in a step, any two have the same with a chance of n² / 2^33. With 1,000 that is one step in
    /// 8,600, with 10,000 one in 86; in that step, one of the two counts a wait that is too long.
    [[nodiscard]] static std::uint32_t half_of(std::uint64_t collective_key) {
        return std::max(1U, static_cast<std::uint32_t>(collective_key));
    }

    /// With a start only.
    [[nodiscard]] Interval interval() const {
        return {start_ns, start_ns + static_cast<std::int64_t>(duration_ms * 1e6 + 0.5)};
    }
    [[nodiscard]] bool has_start() const { return start_ns != no_start; }
    [[nodiscard]] std::uint32_t seq() const { return place & max_seq; }
    [[nodiscard]] std::uint32_t stream() const { return place >> 18 & max_stream; }
    [[nodiscard]] std::uint32_t depth() const { return place >> 28; }
    /// For a sample with a start, see place_of().
    [[nodiscard]] bool is_host_paced() const { return (place & flag) != 0; }
    /// For a sample without a start.
    [[nodiscard]] bool is_behind_step() const { return (place & flag) != 0; }
    [[nodiscard]] bool is_top_level() const { return depth() == 0; }

    double duration_ms;
    std::int64_t start_ns;  // no_start where the row does not say
    float lag_ms;           // NaN where the row does not say
    /// Its number, see Collectives; 0 where it has none. While files are read half of its key; to number collectives
    /// changes nothing else of a job.
    mutable std::uint32_t collective;
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
static_assert(sizeof(Sample) == 32);  // there may be tens of millions

}  // namespace cep::tool
