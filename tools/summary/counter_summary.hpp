// SPDX-License-Identifier: Apache-2.0
//
// Counters over all ranks, and what those of PyTorch's memory say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

/// One figure of each rank.
struct AcrossRanks {
    std::uint64_t ranks = 0;
    double median = 0;
    double max = 0;
    std::int64_t max_rank = 0;  // of equals, the lowest
};

struct CounterSummary {
    std::string name;
    AcrossRanks max;   // of each rank's steps
    AcrossRanks last;  // of each rank's last step
};

/// What is known of the memory of the ranks' devices, from the counters "memory.*" that cep.torch writes.
struct MemorySummary {
    std::optional<AcrossRanks> peak_allocated_bytes;
    std::optional<AcrossRanks> peak_reserved_bytes;
    std::optional<AcrossRanks> fragmentation;  // 1 − allocated / reserved, in the last step
    std::optional<AcrossRanks> used;           // largest reserved / memory of the device
    std::string peak_phase;                    // with the most allocated, where the peaks of phases were recorded
    double peak_phase_bytes = 0;
    double alloc_retries = 0;  // of all ranks; each freed the cache and waited for the device

    /// What the fullest rank has never reserved of its device.
    [[nodiscard]] std::optional<double> headroom() const {
        return used ? std::optional(std::max(0.0, 1 - used->max)) : std::nullopt;
    }
    /// Whether some allocations had to try again, or the device of a rank is nearly full.
    [[nodiscard]] bool is_short() const;
};

/// By name. A later attempt's last step counts.
[[nodiscard]] std::vector<CounterSummary> summarize_counters(const RankSeries& ranks);
/// None where there is no such counter.
[[nodiscard]] std::optional<MemorySummary> summarize_memory(const RankSeries& ranks);
/// What the median rank has; where another has much more, that too.
[[nodiscard]] std::string describe_memory(const MemorySummary& memory);

}  // namespace cep::tool
