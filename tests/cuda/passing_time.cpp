// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the C library's clock_gettime(), and for its syscall(), through which libcep sleeps.
#include "passing_time.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdarg>
#include <ctime>
#include <mutex>

namespace cep::test {
namespace {

constexpr std::int64_t ns_per_s = 1'000'000'000;
constexpr std::int64_t patience_ns = 60 * ns_per_s;

/// A thread that sleeps until a time, or until its word is woken.
struct Sleeper {
    const void* word = nullptr;  ///< null: a free place
    std::int64_t deadline_ns = 0;
    bool asleep = false;  ///< false: its time has come, and it has been woken
};

std::mutex mutex;
std::array<Sleeper, 8> sleepers;
std::atomic<std::int64_t> passed_ns{0};

using Syscall = long (*)(long, ...);
using ClockGettime = int (*)(clockid_t, timespec*);

[[nodiscard]] Syscall real_syscall() {
    static const auto found = reinterpret_cast<Syscall>(dlsym(RTLD_NEXT, "syscall"));
    return found;
}

[[nodiscard]] ClockGettime real_clock_gettime() {
    static const auto found = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
    return found;
}

[[nodiscard]] std::int64_t ns_of(const timespec& time) {
    return std::int64_t{time.tv_sec} * ns_per_s + time.tv_nsec;
}

[[nodiscard]] timespec time_of(std::int64_t ns) {
    return {static_cast<std::time_t>(ns / ns_per_s), static_cast<long>(ns % ns_per_s)};
}

[[nodiscard]] std::int64_t true_ns() {
    timespec now{};
    real_clock_gettime()(CLOCK_MONOTONIC, &now);
    return ns_of(now);
}

[[nodiscard]] bool passes(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC ||
           clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
}

[[nodiscard]] Sleeper& fall_asleep(const void* word, std::int64_t deadline_ns) {
    const std::lock_guard guard(mutex);
    Sleeper& place = *std::find_if(sleepers.begin(), sleepers.end(), [](const auto& one) { return !one.word; });
    place = {word, deadline_ns, true};
    return place;
}

void wake_up(Sleeper& sleeper) {
    const std::lock_guard guard(mutex);
    sleeper = {};
}

/// Futexes, whose deadlines are the kernel's time; none means that only a call wakes the thread.
[[nodiscard]] long sleep_on(const std::array<long, 6>& arguments) {
    const auto* const word = reinterpret_cast<const void*>(arguments[0]);
    const auto* const deadline = reinterpret_cast<const timespec*>(arguments[3]);
    const std::int64_t deadline_ns = deadline != nullptr ? ns_of(*deadline) : INT64_MAX;
    Sleeper& sleeper = fall_asleep(word, deadline_ns);
    const timespec until = time_of(std::max<std::int64_t>(deadline_ns - passed_ns, 0));
    const long code = real_syscall()(SYS_futex, word, arguments[1], arguments[2],
                                     deadline != nullptr ? &until : nullptr, arguments[4], arguments[5]);
    wake_up(sleeper);
    return code;
}

/// Again and again: one that has not reached the kernel yet does not hear the first call.
void wake_all_that_are_due() {
    for (const Sleeper& sleeper : sleepers)
        if (sleeper.word != nullptr && !sleeper.asleep)
            (void)real_syscall()(SYS_futex, sleeper.word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

[[nodiscard]] bool pass_time_if_all_sleep(std::int64_t ns) {
    constexpr long library_threads = 2;
    const std::lock_guard guard(mutex);
    wake_all_that_are_due();
    if (std::count_if(sleepers.begin(), sleepers.end(), [](const auto& one) { return one.asleep; }) < library_threads)
        return false;
    passed_ns += ns;
    const std::int64_t now_ns = true_ns() + passed_ns;
    for (Sleeper& sleeper : sleepers) sleeper.asleep = sleeper.asleep && sleeper.deadline_ns > now_ns;
    wake_all_that_are_due();
    return true;
}

}  // namespace

bool pass_time(std::int64_t ns) {
    const std::int64_t give_up_ns = true_ns() + patience_ns;
    while (!pass_time_if_all_sleep(ns)) {
        if (true_ns() > give_up_ns) return false;
        sched_yield();
    }
    return true;
}

void skip_time(std::int64_t ns) {
    passed_ns += ns;
}

}  // namespace cep::test

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    using namespace cep::test;
    const int code = real_clock_gettime()(clock, time);
    if (code == 0 && passes(clock)) *time = time_of(ns_of(*time) + passed_ns);
    return code;
}

// Like the C library's, reads six arguments, as many as the kernel takes, whether the call has them or not.
__attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
    std::array<long, 6> arguments{};
    va_list given;
    va_start(given, number);
    for (long& argument : arguments) argument = va_arg(given, long);
    va_end(given);
    const bool sleeps = number == SYS_futex && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    if (sleeps) return cep::test::sleep_on(arguments);
    return cep::test::real_syscall()(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                                     arguments[5]);
}

}  // extern "C"
