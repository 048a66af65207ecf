// SPDX-License-Identifier: Apache-2.0
//
// Slow transfers: how many take much longer than is usual for their size, and when.
#pragma once

#include <cstdint>
#include <string>

#include "comm/transfer.hpp"

namespace cep::comm {

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

/// `usual_ms(bytes)`: the median of a size.
template <typename UsualMs>
[[nodiscard]] SlowTransfers find_slow_transfers(const Transfers& transfers, UsualMs usual_ms);

/// A transfer's step, and whether it is slow.
struct SlowMark {
    std::int64_t step = 0;
    bool is_slow = false;
};
[[nodiscard]] SlowTransfers describe_slow(std::vector<SlowMark> marks);

template <typename UsualMs>
SlowTransfers find_slow_transfers(const Transfers& transfers, UsualMs usual_ms) {
    std::vector<SlowMark> marks;
    marks.reserve(transfers.size());
    for (const Transfer& one : transfers) marks.push_back({one.step, one.ms > slow_ratio * usual_ms(one.bytes)});
    return describe_slow(std::move(marks));
}

}  // namespace cep::comm
