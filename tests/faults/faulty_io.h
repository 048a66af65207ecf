// SPDX-License-Identifier: Apache-2.0
//
// A disk, a scheduler and a clock that fail on command. In a test that links faulty_io.c, its functions replace those
// of the C library for everything that the process loads, libcep included. They affect only rank files, which they
// recognise by their name in /proc/self/fd, however the descriptor was made. All other calls pass through.
//
// Each io_ function sets one fault, at once and for all threads; a forked child inherits the faults. A write checks the
// faults in this order: stall, delay, interruption, error, no space, short write.
#ifndef CEP_TESTS_FAULTS_FAULTY_IO_H
#define CEP_TESTS_FAULTS_FAULTY_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "check.h"

// The sanitizers replace threads and clocks themselves, so tests that need these two faults skip there.
#define IO_HAS_THREADS_AND_CLOCKS (!CHECK_SANITIZED)

// A number of times without limit.
#define IO_FOR_EVER INT64_MAX

// ---- Writes to a rank file

// This many next writes fail with that error.
void io_fail_writes(int error, int64_t times);
// Writes fail with that error until a rank file is opened for writing, as with a stale handle.
void io_fail_writes_until_reopened(int error);
// This many more bytes fit. After that, writes fail with that error, as on a full disk or quota.
void io_leave_room(int error, int64_t bytes);
// A write accepts 1 byte, the next 2, and so on up to this many, then again from 1.
void io_cut_writes_short(int64_t longest_bytes);
// Every second write is interrupted before it has written anything.
void io_interrupt_every_second_write(void);
// Every write takes this long, whether it succeeds or fails.
void io_slow_writes_down(int64_t ns);
// Writes block until io_release_writes().
void io_stall_writes(void);
void io_release_writes(void);
// Returns once a thread is inside a stalled write. The test fails if that does not happen.
void io_wait_for_stalled_write(void);
// The number of threads that are inside one now.
int64_t io_writes_waiting(void);
// Removes all faults above.
void io_heal_writes(void);

// ---- Reads, of any file

// Every second read is interrupted before it has read anything.
void io_interrupt_every_second_read(void);
// A read takes that many bytes at most.
void io_cut_reads_short(int64_t longest_bytes);

// ---- Opening

// This many next opens of a rank file, for reading or writing, fail with that error.
void io_fail_opens(int error, int64_t times);
// Every mkdir(2) of the process fails with that error; 0: none fails.
void io_fail_directories(int error);
// Every flock(2) on a rank file fails with that error; 0: none fails.
void io_fail_locks(int error);
// This many next flock(2) calls on a rank file are interrupted by a signal.
void io_interrupt_locks(int64_t times);

// ---- Threads and clocks

// This many next pthread_create() calls fail with EAGAIN.
void io_fail_threads(int64_t times);
// Moves CLOCK_REALTIME, and no other clock, forward or back by this much.
void io_step_clock(int64_t ns);
// Moves all clocks forward by this much, as if that time had passed.
void io_pass_time(int64_t ns);
// The kernel's CLOCK_MONOTONIC, without the effect of io_pass_time().
int64_t io_true_monotonic_ns(void);

// ---- Counts since the process began

int64_t io_writes_tried(void);
int64_t io_writes_failed(void);
int64_t io_bytes_read(void);
int64_t io_reads_interrupted(void);
int64_t io_opens_failed(void);
int64_t io_locks_tried(void);
int64_t io_threads_refused(void);

#endif
