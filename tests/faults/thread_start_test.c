// SPDX-License-Identifier: Apache-2.0
//
// A process that cannot start a thread at the first span (RLIMIT_NPROC, a cgroup's pids.max), but can later.
#include "faulty_io.h"
#include "scene.h"

// After a refusal the library waits before it asks again. When this returns, that time has passed.
static cep_profiler* start_without_threads(int64_t times) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("threads are the sanitizer's");
    PROFILER_WITH(start_with, quiet_options, flush_every_n_steps = 10);
    io_fail_threads(times);
    record_numbers(profiler, 1, 100);
    CHECK(io_threads_refused() > 0);
    CHECK_EQ(count_threads(), 1);
    io_pass_time(INT64_C(1000000000));
    return profiler;
}

static void check_complete(cep_profiler* profiler, int64_t count) {
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).written, count);
    check_has_numbers(RANK_FILE, 1, count);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(rows_are_written_after_a_flush_step_once_a_thread_can_be_started) {
    cep_profiler* profiler = start_without_threads(1);
    CHECK_EQ(cep_step(profiler, 10), CEP_OK);
    WAIT_FOR(stats_of(profiler).written == 100);
    check_complete(profiler, 100);
}

TEST(rows_are_written_by_a_flush_once_a_thread_can_be_started) {
    cep_profiler* profiler = start_without_threads(1);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).written, 100);
    CHECK_EQ(count_threads(), 2);
    check_complete(profiler, 100);
}

TEST(rows_are_written_by_a_flush_while_no_thread_can_be_started) {
    cep_profiler* profiler = start_without_threads(IO_FOR_EVER);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).written, 100);
    check_complete(profiler, 100);
}

TEST(a_half_full_ring_tries_again_to_start_a_thread) {
    cep_profiler* profiler = start_without_threads(1);
    for (int64_t number = 101; number <= 3000; ++number) record_numbers(profiler, number, 1);
    WAIT_FOR(count_threads() == 2);
    check_complete(profiler, 3000);
}

TEST(a_close_writes_all_rows_without_a_thread) {
    cep_profiler* profiler = start_without_threads(IO_FOR_EVER);
    record_numbers(profiler, 101, 900);
    check_complete(profiler, 1000);
}

static void exit_without_threads(void) {
    (void)start_without_threads(IO_FOR_EVER);
}

TEST(an_exit_writes_all_rows_without_a_thread) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("threads are the sanitizer's");
    CHECK_CHILD_PASSES(exit_without_threads);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 100);
    check_has_numbers(RANK_FILE, 1, 100);
}

TEST(spans_beyond_a_ring_without_a_thread_are_counted) {
    cep_profiler* profiler = start_without_threads(IO_FOR_EVER);
    for (int64_t first = 101; first < 10101; first += 100) {
        record_numbers(profiler, first, 100);
        (void)accounted_stats_of(profiler);
    }
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.written + stats.dropped_ring, 10100);
    CHECK(stats.written >= 4096);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(refused_threads_are_rarely_requested_again) {
    cep_profiler* profiler = start_without_threads(IO_FOR_EVER);
    for (int64_t step = 2; step < 10000; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        record_spans(profiler, "forward", 1);
    }
    CHECK(io_threads_refused() < 5000);
    close_now(profiler);
}
