// SPDX-License-Identifier: Apache-2.0
#include "base/background_thread.hpp"

#include <ctime>

namespace cep {
namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 20;

/// All signals but the synchronous ones, which a thread raises itself: blocking those would hide a crash.
[[nodiscard]] sigset_t asynchronous_signals() noexcept {
    sigset_t set;
    sigfillset(&set);
    for (const int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
        sigdelset(&set, synchronous);
    return set;
}

}  // namespace

SignalsBlocked::SignalsBlocked() noexcept {
    const sigset_t blocked = asynchronous_signals();
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

bool BackgroundThread::start(const char* name, Body body, void* argument) noexcept {
    State expected = State::none;
    if (!state_.compare_exchange_strong(expected, State::starting, std::memory_order_acq_rel)) return true;
    name_ = name;
    body_ = body;
    argument_ = argument;
    const KeepErrno keep;
    const bool created = create();
    state_.store(created ? State::started : State::none, std::memory_order_release);
    return created;
}

bool BackgroundThread::create() noexcept {
    const SignalsBlocked blocked;  // the new thread inherits the mask
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    int code = pthread_create(&thread_, &attributes, &main, this);
    // A program with much thread-local storage needs a larger stack than stack_bytes.
    if (code == EINVAL) code = pthread_create(&thread_, nullptr, &main, this);
    pthread_attr_destroy(&attributes);
    return code == 0;
}

void* BackgroundThread::main(void* self) noexcept {
    auto* const thread = static_cast<BackgroundThread*>(self);
    pthread_setname_np(pthread_self(), thread->name_);
    thread->body_(thread->argument_);
    thread->ended_.serve(1);
    return nullptr;
}

bool BackgroundThread::join(std::int64_t deadline_ns) noexcept {
    State expected = State::started;
    if (!state_.compare_exchange_strong(expected, State::joined, std::memory_order_acq_rel)) return true;
    const bool ended = ended_.wait(1, deadline_ns);
    if (ended)
        pthread_join(thread_, nullptr);
    else
        pthread_detach(thread_);
    return ended;
}

WriteSignalsBlocked::WriteSignalsBlocked() noexcept {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
}

WriteSignalsBlocked::~WriteSignalsBlocked() {
    const KeepErrno keep;
    take_back(SIGXFSZ);
    take_back(SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

/// Discards a signal that the library's write raised, so that it does not arrive when it is unblocked.
void WriteSignalsBlocked::take_back(int signal) const noexcept {
    sigset_t one;
    sigset_t pending;
    sigemptyset(&one);
    sigaddset(&one, signal);
    const timespec no_wait{0, 0};
    if (sigismember(&before_, signal) == 0 && sigpending(&pending) == 0 && sigismember(&pending, signal) == 1)
        sigtimedwait(&one, nullptr, &no_wait);
}

}  // namespace cep
