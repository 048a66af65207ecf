// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace cep {

/// Wakes one sleeping thread. notify() never blocks, and makes a system call only when the other side sleeps.
class Wakeup {
  public:
    void notify() noexcept {
        if (state_.exchange(notified, std::memory_order_acq_rel) == sleeping)
            syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }

    /// Sleeps until notified, or `pause_ns` have passed. One thread only.
    void wait(std::int64_t pause_ns) noexcept {
        std::uint32_t expected = idle;
        if (state_.compare_exchange_strong(expected, sleeping, std::memory_order_acq_rel)) {
            const timespec pause{static_cast<std::time_t>(pause_ns / 1'000'000'000),
                                 static_cast<long>(pause_ns % 1'000'000'000)};
            syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, sleeping, &pause, nullptr, 0);
        }
        state_.exchange(idle, std::memory_order_acq_rel);
    }

  private:
    static constexpr std::uint32_t idle = 0;
    static constexpr std::uint32_t notified = 1;
    static constexpr std::uint32_t sleeping = 2;

    std::atomic<std::uint32_t> state_{idle};
};

}  // namespace cep
