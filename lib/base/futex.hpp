// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/host_clock.hpp"
#include "base/system_call.hpp"

namespace cep {

/// A deadline that never passes.
inline constexpr std::int64_t no_deadline_ns = INT64_MAX;

/// Sleeps while `word` is `value`, until another thread wakes the word or the deadline (monotonic clock) passes. It may
/// also return early, so the caller checks again.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns) noexcept {
    const KeepErrno keep;
    const timespec until{static_cast<std::time_t>(deadline_ns / ns_per_s), static_cast<long>(deadline_ns % ns_per_s)};
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline_ns == no_deadline_ns ? nullptr : &until,
            nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futex_wake(std::atomic<std::uint32_t>& word, int threads) noexcept {
    const KeepErrno keep;
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace cep
