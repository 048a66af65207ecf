// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/futex.hpp"

namespace cep {

/// Numbered requests from any thread to one server thread, which serves them in order. There is no lock that a fork or
/// a signal handler that calls exit() could find held.
class Requests {
  public:
    /// Makes a request and returns its number.
    [[nodiscard]] std::uint32_t ask() noexcept { return asked_.fetch_add(1, std::memory_order_acq_rel) + 1; }

    /// Server: the number of the last request.
    [[nodiscard]] std::uint32_t asked() const noexcept { return asked_.load(std::memory_order_acquire); }

    /// Server: marks all requests up to this number as served.
    void serve(std::uint32_t number) noexcept {
        served_.store(number, std::memory_order_release);
        futex_wake(served_, INT_MAX);
    }

    [[nodiscard]] bool served(std::uint32_t number) const noexcept {
        return static_cast<std::int32_t>(served_.load(std::memory_order_acquire) - number) >= 0;
    }

    /// Waits until that request is served. False if the deadline (monotonic clock) passes first.
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
