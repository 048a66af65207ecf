// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.hpp"

namespace cep {

/// Wakes one sleeping thread. notify() never blocks, and makes a system call only if that thread sleeps.
class Wakeup {
  public:
    void notify() noexcept {
        if (!served_.load(std::memory_order_relaxed) && start_ != nullptr) start_(argument_);
        wake();
    }
    /// The same, but starts no thread.
    void wake() noexcept {
        if (state_.exchange(notified, std::memory_order_acq_rel) == sleeping) futex_wake(state_, 1);
    }

    /// A pause that only notify() ends.
    static constexpr std::int64_t for_ever_ns = INT64_MAX;

    /// Sleeps until notified or until `pause_ns` have passed. Only one thread may call it.
    void wait(std::int64_t pause_ns) noexcept {
        std::uint32_t expected = idle;
        if (state_.compare_exchange_strong(expected, sleeping, std::memory_order_acq_rel))
            futex_wait(state_, sleeping, pause_ns == for_ever_ns ? no_deadline_ns : monotonic_ns() + pause_ns);
        state_.exchange(idle, std::memory_order_acq_rel);
    }

    /// Sets a function that notify() calls unless set_served(true), to start the thread that sleeps here. Call it
    /// before any notify().
    void set_start(void (*start)(void*) noexcept, void* argument) noexcept {
        start_ = start;
        argument_ = argument;
    }
    void set_served(bool served) noexcept { served_.store(served, std::memory_order_relaxed); }

  private:
    static constexpr std::uint32_t idle = 0;
    static constexpr std::uint32_t notified = 1;
    static constexpr std::uint32_t sleeping = 2;

    std::atomic<std::uint32_t> state_{idle};
    std::atomic<bool> served_{false};
    void (*start_)(void*) noexcept = nullptr;
    void* argument_ = nullptr;
};

}  // namespace cep
