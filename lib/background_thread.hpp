// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "requests.hpp"

namespace cep {

/// A thread of the library's. It leaves asynchronous signals to the trainer's threads.
class BackgroundThread {
  public:
    using Body = void (*)(void*) noexcept;

    BackgroundThread() = default;
    BackgroundThread(const BackgroundThread&) = delete;
    BackgroundThread& operator=(const BackgroundThread&) = delete;

    /// Starts the thread unless it has been started. Any thread. False if the system refuses; another call tries again.
    bool start(const char* name, Body body, void* argument) noexcept;
    [[nodiscard]] bool started() const noexcept { return state_.load(std::memory_order_acquire) == State::started; }
    /// Waits for the end of the body. True: it has ended, or was never started, and uses nothing any more. False: it
    /// goes on by itself. Call once.
    [[nodiscard]] bool join(std::int64_t deadline_ns) noexcept;

  private:
    enum class State : std::uint8_t { none, starting, started };

    static void* main(void* self) noexcept;
    [[nodiscard]] bool create() noexcept;

    std::atomic<State> state_{State::none};
    pthread_t thread_{};
    const char* name_ = "";
    Body body_ = nullptr;
    void* argument_ = nullptr;
    Requests ended_;
};

/// Keeps the calling thread from being ended by what its own writes raise: SIGPIPE, and SIGXFSZ past RLIMIT_FSIZE.
class WriteSignalsBlocked {
  public:
    WriteSignalsBlocked() noexcept;
    WriteSignalsBlocked(const WriteSignalsBlocked&) = delete;
    WriteSignalsBlocked& operator=(const WriteSignalsBlocked&) = delete;
    ~WriteSignalsBlocked();

  private:
    void take_back(int signal) const noexcept;

    sigset_t before_{};
};

}  // namespace cep
