// SPDX-License-Identifier: Apache-2.0
//
// Slow transfers: how many take much longer than is usual for their size, and when; and which process groups of a kind
// are slower or faster than the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace cep::comm {

/// What one collective took, without the waiting for its last rank.
struct Transfer {
    std::int64_t bytes = 0;
    std::int64_t step = 0;
    std::uint32_t group = 0;  // which of the groups that it is compared with
    double ms = 0;
    double wait_ms = 0;  // the mean over its ranks
};

using Transfers = std::vector<Transfer>;

/// A transfer is slow if it takes more than so many times the median of its size.
inline constexpr double slow_ratio = 1.5;

enum class SlowPattern : std::uint8_t { never, now_and_then, periodic, window };
inline constexpr std::string_view slow_pattern_names[] = {"never", "now and then", "periodic", "window"};

struct SlowTransfers {
    double share = 0;  // of all transfers
    SlowPattern pattern = SlowPattern::never;
    std::int64_t first_step = 0;  // of the slow ones; of a window
    std::int64_t last_step = 0;
    bool lasts = false;      // of a window: until the last step
    std::int64_t every = 0;  // of a periodic one: steps

    /// "from step 36 on", "in steps 10 to 20", "every 4 steps", "now and then"; "" where there are none.
    [[nodiscard]] std::string when() const;
};

/// `usual_ms`: the medians, by size.
[[nodiscard]] SlowTransfers find_slow_transfers(const Transfers& transfers,
                                                const std::unordered_map<std::int64_t, double>& usual_ms);

/// Groups whose transfers take about as long, for their sizes.
struct GroupClass {
    std::vector<std::uint32_t> groups;  // ascending
    double times_usual = 1;             // as long as those of the class with most groups; of equals, the fastest
};

/// One class, unless a gap between the groups is more than a tenth and more than chance, with what each group's own
/// transfers vary by and how long they stay so. The fastest class first, and four at most.
[[nodiscard]] std::vector<GroupClass> find_group_classes(const Transfers& transfers, std::size_t groups);

}  // namespace cep::comm
