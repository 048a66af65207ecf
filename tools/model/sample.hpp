// SPDX-License-Identifier: Apache-2.0
//
// Sample: what is kept of one span.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "stats/interval_set.hpp"

namespace cep::tool {

/// One span.
struct Sample {
    static constexpr std::int64_t no_start = std::numeric_limits<std::int64_t>::min();
    static constexpr std::uint32_t max_depth = 15;
    static constexpr std::uint32_t max_stream = 1023;
    static constexpr std::uint32_t max_seq = (1U << 17) - 1;
    static constexpr std::uint32_t flag = 1U << 17;

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
    [[nodiscard]] std::uint32_t seq() const { return attributes & max_seq; }
    [[nodiscard]] std::uint32_t stream() const { return attributes >> 18 & max_stream; }
    [[nodiscard]] std::uint32_t depth() const { return attributes >> 28; }
    /// For a sample with a start: the span is as long as the host's work.
    [[nodiscard]] bool is_host_paced() const { return (attributes & flag) != 0; }
    /// For a sample without a start: its row stands behind that of the step span.
    [[nodiscard]] bool is_behind_step() const { return (attributes & flag) != 0; }
    [[nodiscard]] bool is_top_level() const { return depth() == 0; }

    double duration_ms;
    std::int64_t start_ns;  // no_start where the row does not say
    float lag_ms;           // NaN where the row does not say
    /// Its number, see Collectives; 0 where it has none. While files are read half of its key; to number collectives
    /// changes nothing else of a job.
    mutable std::uint32_t collective;
    std::uint32_t step_index;  // into RunSeries::steps
    std::uint32_t attributes;  // depth, stream, a flag and seq
};
static_assert(sizeof(Sample) == 32);  // there may be tens of millions

}  // namespace cep::tool
