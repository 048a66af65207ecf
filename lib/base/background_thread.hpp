// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "base/requests.hpp"

namespace cep {

/// A thread of the library. It leaves asynchronous signals to the trainer's threads.
class BackgroundThread {
  public:
    using Body = void (*)(void*) noexcept;

    BackgroundThread() = default;
    BackgroundThread(const BackgroundThread&) = delete;
    BackgroundThread& operator=(const BackgroundThread&) = delete;

    /// Starts the thread once. Any thread may call it. False if the system refuses; call again to retry.
    bool start(const char* name, Body body, void* argument) noexcept;
    [[nodiscard]] bool started() const noexcept { return state_.load(std::memory_order_acquire) >= State::started; }
    /// Waits for the thread to end. True: it has ended or was never started, so what it used can be freed. False: it
    /// still runs and is detached. A later call, as by exit() in a signal handler that interrupts this one, does
    /// nothing.
    [[nodiscard]] bool join(std::int64_t deadline_ns) noexcept;

  private:
    enum class State : std::uint8_t { none, starting, started, joined };

    static void* main(void* self) noexcept;
    [[nodiscard]] bool create() noexcept;

    std::atomic<State> state_{State::none};
    pthread_t thread_{};
    const char* name_ = "";
    Body body_ = nullptr;
    void* argument_ = nullptr;
    Requests ended_;
};

/// Blocks all signals but those that the calling thread raises itself: no handler interrupts it.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept;
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_{};
};

/// Blocks the signals that the calling thread's own writes can raise: SIGPIPE, and SIGXFSZ past RLIMIT_FSIZE.
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
