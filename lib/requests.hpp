// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>

#include "futex.hpp"

namespace cep {

/// Numbered requests of any threads to one that serves them in order. No lock: a signal handler that ends the process,
/// or a fork, finds nothing held.
class Requests {
  public:
    /// Asks, and returns the request's number.
    [[nodiscard]] std::uint32_t ask() noexcept { return asked_.fetch_add(1, std::memory_order_acq_rel) + 1; }

    /// Server: the last number given out.
    [[nodiscard]] std::uint32_t asked() const noexcept { return asked_.load(std::memory_order_acquire); }

    /// Server: all requests up to this number are served.
    void serve(std::uint32_t number) noexcept {
        served_.store(number, std::memory_order_release);
        futex_wake(served_, INT_MAX);
    }

    [[nodiscard]] bool served(std::uint32_t number) const noexcept {
        return static_cast<std::int32_t>(served_.load(std::memory_order_acquire) - number) >= 0;
    }

    /// Waits until that request is served, or the deadline (monotonic clock) has passed (false).
    [[nodiscard]] bool wait(std::uint32_t number, std::int64_t deadline_ns) noexcept {
        for (;;) {
            const std::uint32_t now = served_.load(std::memory_order_acquire);
            if (static_cast<std::int32_t>(now - number) >= 0) return true;
            if (monotonic_ns() >= deadline_ns) return false;
            futex_wait(served_, now, deadline_ns);
        }
    }

  private:
    std::atomic<std::uint32_t> asked_{0};
    std::atomic<std::uint32_t> served_{0};
};

}  // namespace cep
