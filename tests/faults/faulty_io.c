// SPDX-License-Identifier: Apache-2.0
//
// Some calls have a second name for large files. This file defines both, so that none is redirected to the other.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include "faulty_io.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "scene.h"

typedef _Atomic int64_t counter;

static struct {
    counter fail_times, room_bytes, longest_bytes, slow_ns, longest_read_bytes, open_fail_times, lock_interrupt_times,
        thread_fail_times;
    _Atomic int fail_error, stale_error, room_error, open_error, directory_error, lock_error;
    atomic_bool interrupts, interrupts_reads, is_room_limited;
    _Atomic uint32_t stalled;  // a futex
    counter stepped_ns, passed_ns;
} faults;

static struct {
    counter tried, failed, waiting, bytes_read, reads, reads_interrupted, opens_failed, locks, threads_refused, cut,
        interrupted;
} seen;

// ---- Setting faults

// Defines a function that sets a fault, and below one that tells what was seen.
#define SETS(function, type, member, sign) \
    void function(type value) {            \
        faults.member sign value;          \
    }
SETS(io_fail_writes_until_reopened, int, stale_error, =)
SETS(io_cut_writes_short, int64_t, longest_bytes, =)
SETS(io_slow_writes_down, int64_t, slow_ns, =)
SETS(io_cut_reads_short, int64_t, longest_read_bytes, =)
SETS(io_fail_directories, int, directory_error, =)
SETS(io_fail_locks, int, lock_error, =)
SETS(io_interrupt_locks, int64_t, lock_interrupt_times, =)
SETS(io_fail_threads, int64_t, thread_fail_times, =)
SETS(io_step_clock, int64_t, stepped_ns, +=)
SETS(io_pass_time, int64_t, passed_ns, +=)

void io_fail_writes(int error, int64_t times) {
    faults.fail_error = error;
    faults.fail_times = times;
}
void io_leave_room(int error, int64_t bytes) {
    faults.room_error = error;
    faults.room_bytes = bytes;
    faults.is_room_limited = true;
}
void io_interrupt_every_second_write(void) {
    faults.interrupts = true;
}
void io_stall_writes(void) {
    faults.stalled = 1;
}
void io_release_writes(void) {
    faults.stalled = 0;
    syscall(SYS_futex, &faults.stalled, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
void io_wait_for_stalled_write(void) {
    WAIT_FOR(io_writes_waiting() > 0);
}
void io_heal_writes(void) {
    faults.fail_times = 0;
    faults.stale_error = 0;
    faults.is_room_limited = false;
    faults.longest_bytes = 0;
    faults.interrupts = false;
    faults.slow_ns = 0;
    io_release_writes();
}

void io_interrupt_every_second_read(void) {
    faults.interrupts_reads = true;
}
void io_fail_opens(int error, int64_t times) {
    faults.open_error = error;
    faults.open_fail_times = times;
}

#define TELLS(function, member) \
    int64_t function(void) {    \
        return seen.member;     \
    }
TELLS(io_writes_tried, tried)
TELLS(io_writes_failed, failed)
TELLS(io_bytes_read, bytes_read)
TELLS(io_reads_interrupted, reads_interrupted)
TELLS(io_opens_failed, opens_failed)
TELLS(io_locks_tried, locks)
TELLS(io_threads_refused, threads_refused)

int64_t io_writes_waiting(void) {
    return faults.stalled != 0 ? (int64_t)seen.waiting : 0;
}

int64_t io_true_monotonic_ns(void) {
    struct timespec now = {0, 0};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// ---- Functions that the process calls

static bool names_rank_file(const char* path) {
    return path != NULL && strstr(path, "cuda_events_rank_") != NULL;
}

static bool is_rank_file(int descriptor) {
    const int error = errno;
    char link[48], target[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t size = readlink(link, target, sizeof target - 1);
    errno = error;
    if (size < 0) return false;
    target[size] = '\0';
    return names_rank_file(target);
}

static int64_t fail(int error) {
    errno = error;
    return -1;
}

// Takes one if any are left.
static bool take_one(counter* left) {
    int64_t before = *left;
    while (before > 0)
        if (before == IO_FOR_EVER || atomic_compare_exchange_weak(left, &before, before - 1)) return true;
    return false;
}

static void suffer_delays(void) {
    ++seen.waiting;
    while (faults.stalled != 0) syscall(SYS_futex, &faults.stalled, FUTEX_WAIT, 1, NULL, NULL, 0);
    --seen.waiting;
    const int64_t ns = faults.slow_ns;
    const struct timespec pause = {ns / 1000000000, ns % 1000000000};
    if (ns > 0) nanosleep(&pause, NULL);
}

// The error for a write of this many bytes; 0: no error, and the number of bytes to write.
static int error_of_write(size_t* size) {
    if (faults.interrupts && ++seen.interrupted % 2 == 0) return EINTR;
    if (faults.stale_error != 0) return faults.stale_error;
    if (take_one(&faults.fail_times)) return faults.fail_error;
    if (faults.is_room_limited) {
        if (faults.room_bytes <= 0) return faults.room_error;
        if ((int64_t)*size > faults.room_bytes) *size = (size_t)faults.room_bytes;
        faults.room_bytes -= (int64_t)*size;
    }
    const int64_t longest = faults.longest_bytes;
    const size_t cut = longest > 0 ? (size_t)(seen.cut++ % longest + 1) : *size;
    if (cut < *size) *size = cut;
    return 0;
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
    if (!is_rank_file(descriptor)) return syscall(SYS_write, descriptor, bytes, size);
    ++seen.tried;
    suffer_delays();
    const int error = size > 0 ? error_of_write(&size) : 0;
    const ssize_t done = error != 0 ? fail(error) : syscall(SYS_write, descriptor, bytes, size);
    seen.failed += done < 0;
    return done;
}

// Writes only the first part of a vector: a short write, which callers must expect.
ssize_t writev(int descriptor, const struct iovec* parts, int count) {
    if (!is_rank_file(descriptor)) return syscall(SYS_writev, descriptor, parts, count);
    for (int i = 0; i < count; ++i)
        if (parts[i].iov_len > 0) return write(descriptor, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

static ssize_t count_read(int descriptor, ssize_t size) {
    if (size > 0 && is_rank_file(descriptor)) seen.bytes_read += size;
    return size;
}

// False: the read is interrupted, with errno set. Else how many bytes are let through.
static bool let_read(size_t* size) {
    const int64_t longest = faults.longest_read_bytes;
    if (longest > 0 && (int64_t)*size > longest) *size = (size_t)longest;
    if (!faults.interrupts_reads || ++seen.reads % 2 != 0) return true;
    ++seen.reads_interrupted;
    errno = EINTR;
    return false;
}

ssize_t read(int descriptor, void* bytes, size_t size) {
    if (!let_read(&size)) return -1;
    return count_read(descriptor, syscall(SYS_read, descriptor, bytes, size));
}
ssize_t pread64(int descriptor, void* bytes, size_t size, off64_t offset) {
    if (!let_read(&size)) return -1;
    return count_read(descriptor, syscall(SYS_pread64, descriptor, bytes, size, offset));
}
ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
    return pread64(descriptor, bytes, size, offset);
}

static int open_file(int directory, const char* path, int flags, mode_t mode) {
    if (names_rank_file(path)) {
        if (take_one(&faults.open_fail_times)) {
            ++seen.opens_failed;
            return (int)fail(faults.open_error);
        }
        if ((flags & O_ACCMODE) != O_RDONLY) faults.stale_error = 0;
    }
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

static mode_t mode_given(int flags, va_list arguments) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

#define DEFINE_OPEN(name)                                 \
    int name(const char* path, int flags, ...) {          \
        va_list arguments;                                \
        va_start(arguments, flags);                       \
        const mode_t mode = mode_given(flags, arguments); \
        va_end(arguments);                                \
        return open_file(AT_FDCWD, path, flags, mode);    \
    }
#define DEFINE_OPENAT(name)                                     \
    int name(int directory, const char* path, int flags, ...) { \
        va_list arguments;                                      \
        va_start(arguments, flags);                             \
        const mode_t mode = mode_given(flags, arguments);       \
        va_end(arguments);                                      \
        return open_file(directory, path, flags, mode);         \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int mkdir(const char* path, mode_t mode) {
    if (faults.directory_error != 0) return (int)fail(faults.directory_error);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int flock(int descriptor, int operation) {
    if (is_rank_file(descriptor)) {
        ++seen.locks;
        if (take_one(&faults.lock_interrupt_times)) return (int)fail(EINTR);
        if (faults.lock_error != 0) return (int)fail(faults.lock_error);
    }
    return (int)syscall(SYS_flock, descriptor, operation);
}

#if IO_HAS_THREADS_AND_CLOCKS

typedef int (*create_function)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
typedef int (*clockwait_function)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
    if (take_one(&faults.thread_fail_times)) {
        ++seen.threads_refused;
        return EAGAIN;
    }
    create_function next = NULL;
    *(void**)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(thread, attributes, body, argument);
}

static int64_t offset_of(clockid_t clock) {
    switch (clock) {
        case CLOCK_REALTIME:
        case CLOCK_REALTIME_COARSE:
            return faults.passed_ns + faults.stepped_ns;
        case CLOCK_MONOTONIC:
        case CLOCK_MONOTONIC_COARSE:
        case CLOCK_MONOTONIC_RAW:
        case CLOCK_BOOTTIME:
            return faults.passed_ns;
        default:
            return 0;
    }
}

static void shift(struct timespec* time, int64_t ns) {
    const int64_t sum = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + ns;
    time->tv_sec = sum / 1000000000;
    time->tv_nsec = sum % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
    const long code = syscall(SYS_clock_gettime, clock, time);
    if (code == 0 && offset_of(clock) != 0) shift(time, offset_of(clock));
    return (int)code;
}

// The kernel waits by the real clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
    clockwait_function next = NULL;
    *(void**)&next = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    struct timespec shifted = *deadline;
    shift(&shifted, -offset_of(clock));
    return next(condition, mutex, clock, &shifted);
}

#endif
