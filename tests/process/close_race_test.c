// SPDX-License-Identifier: Apache-2.0
//
// A close that takes a while because of a slow disk, while other threads close, exit or fork.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "every_call.h"
#include "faulty_io.h"

enum { spans = 100 };

static cep_profiler* profiler;

static void* close_patiently(void* unused) {
    (void)unused;
    return (void*)(intptr_t)cep_close(profiler, close_timeout_ms);
}

static pthread_t closer;

// Returns once a thread is inside the call and blocked there.
static void start_and_stall(void* (*call)(void*)) {
    profiler = open_at_step(1);
    record_spans(profiler, "forward", spans);
    io_stall_writes();
    CHECK_EQ(pthread_create(&closer, NULL, call, NULL), 0);
    io_wait_for_stalled_write();
}

static void start_a_close_that_stalls(void) {
    start_and_stall(close_patiently);
}

static void finish_the_close(void) {
    io_release_writes();
    void* code = NULL;
    CHECK_EQ(pthread_join(closer, &code), 0);
    CHECK_EQ((intptr_t)code, CEP_OK);
}

static void check_everything_is_written(void) {
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), spans);
    CHECK_EQ(rows_count(&all, "stats") > 0, 1);
    CHECK_EQ(row_int(rows_last(&all, "stats"), "written"), spans);
}

// The disk works again half a second after another thread has called.
static atomic_bool somebody_waits;

static void* release_the_disk_later(void* unused) {
    const struct timespec answer_time = {0, 500000000};
    while (!somebody_waits) sched_yield();
    nanosleep(&answer_time, NULL);
    io_release_writes();
    return unused;
}

static void start_disk(void) {
    pthread_t disk;
    CHECK_EQ(pthread_create(&disk, NULL, release_the_disk_later, NULL), 0);
    CHECK_EQ(pthread_detach(disk), 0);
}

static void note_the_exit(void) {
    somebody_waits = true;
}

static void exit_while_another_thread_closes(void) {
    start_a_close_that_stalls();
    start_disk();
    CHECK_EQ(pthread_detach(closer), 0);
    CHECK_EQ(atexit(note_the_exit), 0);  // runs before the library's exit handler
}

TEST(exit_while_another_thread_is_in_close_loses_nothing) {
    CHECK_CHILD_PASSES(exit_while_another_thread_closes);
    check_everything_is_written();
}

TEST(a_second_close_returns_when_the_rows_are_in_the_file) {
    start_a_close_that_stalls();
    start_disk();
    somebody_waits = true;
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_OK);
    check_everything_is_written();
    finish_the_close();
}

TEST(a_second_close_that_cannot_wait_long_enough_says_so) {
    start_a_close_that_stalls();
    CHECK_EQ(cep_close(profiler, 50), CEP_ETIMEDOUT);
    CHECK_EQ(cep_close(profiler, 0), CEP_ETIMEDOUT);
    finish_the_close();
    check_everything_is_written();
    CHECK_EQ(cep_close(profiler, 0), CEP_OK);
}

TEST(hot_calls_do_not_wait_for_a_close_that_stalls) {
    start_a_close_that_stalls();
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int step = 2; step < 100; ++step) call_hot_functions(profiler, region, step);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.recorded, spans);
    CHECK_EQ(io_writes_waiting(), 1);
    finish_the_close();
    check_everything_is_written();
}

static void close_the_inherited_profiler(void) {
    alarm(30);
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
}

TEST(a_child_forked_while_a_thread_is_in_close_closes_at_once_and_exits) {
    if (CHECK_SANITIZED) check_skip("sanitizers do not support a fork while other threads run");
    start_a_close_that_stalls();
    CHECK_CHILD_PASSES(close_the_inherited_profiler);
    finish_the_close();
    check_everything_is_written();
}

static void* flush_patiently(void* unused) {
    (void)unused;
    return (void*)(intptr_t)cep_flush(profiler, close_timeout_ms);
}

TEST(a_child_forked_while_a_thread_is_in_flush_closes_at_once_and_exits) {
    if (CHECK_SANITIZED) check_skip("sanitizers do not support a fork while other threads run");
    start_and_stall(flush_patiently);
    CHECK_CHILD_PASSES(close_the_inherited_profiler);
    finish_the_close();
    close_now(profiler);
    check_everything_is_written();
}

static atomic_bool closed;

static void* watch_the_counts(void* unused) {
    (void)unused;
    bool always_there = true;
    while (!closed) always_there = always_there && stats_of(profiler).recorded == spans;
    return (void*)(intptr_t)always_there;
}

TEST(the_counts_never_decrease_during_a_close) {
    for (int round = 0; round < 100; ++round) {
        closed = false;
        profiler = open_at_step(1);
        record_spans(profiler, "forward", spans);
        pthread_t watcher;
        CHECK_EQ(pthread_create(&watcher, NULL, watch_the_counts, NULL), 0);
        close_now(profiler);
        closed = true;
        void* always_there = NULL;
        CHECK_EQ(pthread_join(watcher, &always_there), 0);
        CHECK(always_there != NULL);
    }
}

static void exit_with_a_disk_that_never_answers(void) {
    start_a_close_that_stalls();
}

TEST_THAT(exit_ends_though_another_threads_close_never_does, CHECK_CHILD_PASSES(exit_with_a_disk_that_never_answers))

static void* close_from_a_thread(void* unused) {
    (void)unused;
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_OK);
    return (void*)(uintptr_t)count_spans_in_file(RANK_FILE);
}

TEST(of_many_closers_at_once_each_returns_with_the_rows_in_the_file) {
    enum { closers = 16 };
    profiler = open_at_step(1);
    record_spans(profiler, "forward", spans);
    pthread_t threads[closers];
    for (int i = 0; i < closers; ++i) CHECK_EQ(pthread_create(&threads[i], NULL, close_from_a_thread, NULL), 0);
    for (int i = 0; i < closers; ++i) {
        void* seen = NULL;
        CHECK_EQ(pthread_join(threads[i], &seen), 0);
        CHECK_EQ((uintptr_t)seen, spans);
    }
}
