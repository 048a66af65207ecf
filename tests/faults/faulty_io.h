// SPDX-License-Identifier: Apache-2.0
//
// A disk, a scheduler and a clock that fail on command. Linked into a test, the definitions in faulty_io.c stand in
// front of the C library's for everything the process loads, libcep included. They act on rank files alone, known by
// their name in /proc/self/fd, so that a descriptor counts however it was come by; all else is passed on.
//
// Each io_ function sets one fault, at once, for all threads; a forked child inherits what is set. A write meets the
// faults in this order: it stalls, it takes its time, it is interrupted, it fails, it finds no room, it is cut short.
#ifndef CEP_TESTS_FAULTS_FAULTY_IO_H
#define CEP_TESTS_FAULTS_FAULTY_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "check.h"

// Threads and clocks are the sanitizers' own; tests that need these two faults skip there.
#define IO_HAS_THREADS_AND_CLOCKS (!CHECK_SANITIZED)

// As a number of times.
#define IO_FOR_EVER INT64_MAX

// ---- Writes to a rank file

// The next writes, that many, fail with that error.
void io_fail_writes(int error, int64_t times);
// Writes fail with that error until a rank file is opened for writing (a handle that the server has forgotten).
void io_fail_writes_until_reopened(int error);
// That many more bytes fit; from then on writes fail with that error (a disk or quota that is full).
void io_leave_room(int error, int64_t bytes);
// A write takes 1 byte, the next 2, and so on up to that many, and again from 1.
void io_cut_writes_short(int64_t longest_bytes);
// Every second write is interrupted before it has written anything.
void io_interrupt_every_second_write(void);
// Every write takes that long, however it ends.
void io_slow_writes_down(int64_t ns);
// Writes block until io_release_writes().
void io_stall_writes(void);
void io_release_writes(void);
// Returns once a thread is inside a stalled write; the test fails if none comes.
void io_wait_for_stalled_write(void);
// The disk is as good as new: none of the faults above.
void io_heal_writes(void);

// ---- Reads, of any file

// Every second read is interrupted before it has read anything.
void io_interrupt_every_second_read(void);
// A read takes that many bytes at most.
void io_cut_reads_short(int64_t longest_bytes);

// ---- Opening

// The next times that a rank file is opened, for reading or writing, it fails with that error.
void io_fail_opens(int error, int64_t times);
// Every mkdir(2) of the process fails with that error; 0: none does.
void io_fail_directories(int error);
// Every flock(2) on a rank file fails with that error; 0: none does.
void io_fail_locks(int error);

// ---- Threads and clocks

// The next pthread_create() calls, that many, fail with EAGAIN.
void io_fail_threads(int64_t times);
// Sets CLOCK_REALTIME, and no other clock, forward or back by that much.
void io_step_clock(int64_t ns);
// Lets all clocks be that much further, as if so much time had passed.
void io_pass_time(int64_t ns);
// CLOCK_MONOTONIC as the kernel has it, whatever io_pass_time() did.
int64_t io_true_monotonic_ns(void);

// ---- What happened, since the process began

int64_t io_writes_tried(void);
int64_t io_writes_failed(void);
int64_t io_bytes_read(void);
int64_t io_reads_interrupted(void);
int64_t io_opens_failed(void);
int64_t io_locks_tried(void);
int64_t io_threads_refused(void);

#endif
