// SPDX-License-Identifier: Apache-2.0
#include "disk.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static atomic_bool stalled;
static atomic_int waiting;
static atomic_int refusal;

static bool is_rank_file(int descriptor) {
    char link[64], target[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t size = readlink(link, target, sizeof target - 1);
    if (size < 0) return false;
    target[size] = '\0';
    return strstr(target, "cuda_events_rank_") != NULL;
}

// A stall ends after a while, so that an endless wait fails the test. An alarm would not do: the waiter may block it.
static void wait_for_release(void) {
    enum { longest_stall_s = 30 };
    const time_t start = time(NULL);
    while (stalled) {
        const struct timespec pause = {0, 100000};
        (void)syscall(SYS_nanosleep, &pause, NULL);
        if (time(NULL) - start > longest_stall_s) check_fail(__FILE__, __LINE__, "something waits for a stalled disk");
    }
}

// False: the write fails, with errno set.
static bool let_through(int descriptor) {
    if (!stalled && refusal == 0) return true;
    const int error = errno;
    const bool concerned = is_rank_file(descriptor);
    errno = error;
    if (!concerned) return true;
    ++waiting;
    wait_for_release();
    --waiting;
    if (refusal != 0) errno = refusal;
    return refusal == 0;
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
    return let_through(descriptor) ? syscall(SYS_write, descriptor, bytes, size) : -1;
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
    return let_through(descriptor) ? syscall(SYS_writev, descriptor, parts, count) : -1;
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
    return let_through(descriptor) ? syscall(SYS_pwrite64, descriptor, bytes, size, offset) : -1;
}

void disk_stall(void) {
    stalled = true;
}

void disk_release(void) {
    stalled = false;
}

int disk_waiting(void) {
    return waiting;
}

void disk_wait_until_stalled(void) {
    enum { patience_s = 30 };
    const time_t start = time(NULL);
    while (waiting == 0) {
        if (time(NULL) - start > patience_s) check_fail(__FILE__, __LINE__, "nothing was written within 30 s");
        sched_yield();
    }
}

void disk_refuse(int error) {
    refusal = error;
}
