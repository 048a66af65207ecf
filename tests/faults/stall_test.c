// SPDX-License-Identifier: Apache-2.0
//
// A file system that hangs (NFS, Lustre): its writes neither succeed nor fail.
#include <errno.h>

#include "faulty_io.h"
#include "scene.h"

enum { second = 1000000000, timeout_ms = 500, longest_wait_ns = second + second / 2 };

// Spans 1 to 100 are in the file. The write of spans 101 to 200 stalls.
static cep_profiler* start_and_stall(void) {
    cep_profiler* profiler = start_and_write(100);
    io_stall_writes();
    record_numbers(profiler, 101, 100);
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    io_wait_for_stalled_write();
    return profiler;
}

TEST(the_trainer_continues_while_a_write_is_stalled) {
    cep_profiler* profiler = start_and_stall();
    for (int64_t step = 2; step < 1002; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        record_spans(profiler, "forward", 100);
        CHECK_EQ(cep_counter(profiler, "loss", 0.5), CEP_OK);
        CHECK_EQ(cep_mark(profiler, "checkpoint", NULL), CEP_OK);
    }
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":1}"), CEP_OK);
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.recorded, 200 + 1000 * 102);
    io_release_writes();
    close_now(profiler);
    (void)rows_read(RANK_FILE);
}

// Records a span of that number, again and again while the ring is full, but not for longer than this.
static bool record_within(cep_profiler* profiler, int64_t number, int64_t longest_ns) {
    const int64_t began_ns = io_true_monotonic_ns();
    for (;;) {
        const uint64_t refused = stats_of(profiler).dropped_ring;
        record_numbers(profiler, number, 1);
        if (stats_of(profiler).dropped_ring == refused) return true;
        if (io_true_monotonic_ns() - began_ns > longest_ns) return false;
        sched_yield();
    }
}

static void record_patiently(cep_profiler* profiler, int64_t number) {
    if (!record_within(profiler, number, (int64_t)patience_s * second))
        check_fail(__FILE__, __LINE__, "the ring stays full");
}

enum { ring_capacity = 4096, many_rings = 4 * ring_capacity };

// Spans of many rings are recorded, and wait in memory. Spans 1 to 100 are in the file.
static cep_profiler* fill_the_memory_behind_a_stall(void) {
    cep_profiler* profiler = start_and_stall();
    for (int64_t number = 201; number <= many_rings; ++number) record_patiently(profiler, number);
    CHECK_EQ(stats_of(profiler).written, 100);
    CHECK_EQ(stats_of(profiler).pending, many_rings - 100);
    (void)accounted_stats_of(profiler);
    return profiler;
}

TEST(rows_of_many_rings_wait_in_memory_while_a_write_is_stalled) {
    cep_profiler* profiler = fill_the_memory_behind_a_stall();
    io_release_writes();
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).written, many_rings);
    check_exactly_once(profiler, RANK_FILE);
    check_has_numbers(RANK_FILE, 1, many_rings);
}

TEST(rows_that_wait_behind_a_stalled_write_that_then_fails_are_written_later) {
    cep_profiler* profiler = fill_the_memory_behind_a_stall();
    io_fail_writes(EIO, 3);
    io_release_writes();
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, many_rings);
}

// The rows are longer than 100 bytes, so 4 MiB are 42,000 of them at most.
TEST(memory_for_rows_behind_a_stalled_write_is_bounded) {
    enum { most_rows = 42000 + ring_capacity };
    cep_profiler* profiler = start_and_stall();
    int64_t number = 201;
    while (number <= 2 * most_rows && record_within(profiler, number, second / 5)) ++number;
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK(stats.pending < most_rows);
    CHECK(stats.dropped_ring > 0);
    io_release_writes();
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).dropped_io, 0);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(stalls_one_after_the_other_lose_nothing) {
    cep_profiler* profiler = start_and_stall();
    int64_t number = 201;
    for (int round = 1; round <= 3; ++round) {
        for (; number <= round * many_rings; ++number) record_patiently(profiler, number);
        io_release_writes();
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
        CHECK_EQ(stats_of(profiler).written, round * many_rings);
        io_stall_writes();
    }
    io_release_writes();
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 3 * many_rings);
}

TEST(a_close_that_gives_up_counts_the_rows_that_wait_behind_a_stalled_write) {
    cep_profiler* profiler = fill_the_memory_behind_a_stall();
    CHECK_EQ(cep_close(profiler, timeout_ms), CEP_ETIMEDOUT);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.pending, 0);
    CHECK_EQ(stats.dropped_io, many_rings - 100);
    io_release_writes();
    if (!CHECK_SANITIZED) WAIT_FOR(count_threads() == 1);
    (void)rows_read(RANK_FILE);
    check_no_number_twice(RANK_FILE);
}

// As long as writes do not hang, the writer's thread is the only one.
TEST(a_working_disk_needs_no_second_thread) {
    if (CHECK_SANITIZED) check_skip("the sanitizer has threads of its own");
    cep_profiler* profiler = start();
    for (int64_t first = 1; first < 10000; first += 1000) record_and_flush(profiler, first, 1000);
    CHECK_EQ(count_threads(), 2);
    close_now(profiler);
}

TEST(a_flush_returns_by_its_timeout_while_a_write_is_stalled) {
    cep_profiler* profiler = start_and_stall();
    const int64_t began_ns = io_true_monotonic_ns();
    CHECK_EQ(cep_flush(profiler, timeout_ms), CEP_ETIMEDOUT);
    CHECK(io_true_monotonic_ns() - began_ns < longest_wait_ns);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    io_release_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).written, 200);
    close_and_check(profiler);
}

// A flush that waited could not return CEP_OK before the write has ended.
TEST(a_flush_with_timeout_0_does_not_wait_for_a_stalled_write) {
    cep_profiler* profiler = start_and_stall();
    for (int i = 0; i < 3; ++i) CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    CHECK_EQ(stats_of(profiler).written, 100);
    CHECK_EQ(stats_of(profiler).pending, 100);
    io_release_writes();
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 200);
}

// The write stalls during the flush, not before it.
TEST(a_flush_whose_own_write_stalls_returns_by_its_timeout) {
    cep_profiler* profiler = start_and_write(100);
    io_stall_writes();
    record_numbers(profiler, 101, 100);
    const int64_t began_ns = io_true_monotonic_ns();
    CHECK_EQ(cep_flush(profiler, timeout_ms), CEP_ETIMEDOUT);
    CHECK(io_true_monotonic_ns() - began_ns < longest_wait_ns);
    io_release_writes();
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 200);
}

static void check_closed_by_deadline(cep_profiler* profiler) {
    const int64_t began_ns = io_true_monotonic_ns();
    CHECK_EQ(cep_close(profiler, timeout_ms), CEP_ETIMEDOUT);
    CHECK(io_true_monotonic_ns() - began_ns < longest_wait_ns);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.pending, 0);
    CHECK_EQ(stats.written, 100);
    CHECK_EQ(stats.dropped_io, 100);
}

TEST(a_close_returns_by_its_timeout_while_a_write_is_stalled) {
    check_closed_by_deadline(start_and_stall());
    io_release_writes();
}

TEST(a_second_close_reports_the_first_ones_result) {
    cep_profiler* profiler = start_and_stall();
    check_closed_by_deadline(profiler);
    CHECK_EQ(cep_close(profiler, timeout_ms), CEP_ETIMEDOUT);
    CHECK_CONTAINS(cep_last_error(), "timed out");
    io_release_writes();
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_ETIMEDOUT);
}

TEST(a_close_whose_own_write_stalls_returns_by_its_timeout) {
    cep_profiler* profiler = start_and_write(100);
    io_stall_writes();
    record_numbers(profiler, 101, 100);
    check_closed_by_deadline(profiler);
    io_release_writes();
}

TEST(a_write_that_ends_after_the_close_leaves_whole_lines_and_no_thread) {
    cep_profiler* profiler = start_and_stall();
    check_closed_by_deadline(profiler);
    const long before = file_size(RANK_FILE);
    io_release_writes();
    WAIT_FOR(rank_file_descriptor() == -1);
    if (!CHECK_SANITIZED) WAIT_FOR(count_threads() == 1);
    CHECK(file_size(RANK_FILE) >= before);
    (void)rows_read(RANK_FILE);
    check_no_number_twice(RANK_FILE);
    (void)accounted_stats_of(profiler);
}

TEST(calls_after_a_close_that_gave_up_do_nothing) {
    cep_profiler* profiler = start_and_stall();
    check_closed_by_deadline(profiler);
    CHECK_EQ(cep_step(profiler, 5), CEP_OK);
    record_spans(profiler, "late", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).recorded, 200);
    io_release_writes();
}

TEST(a_profiler_of_another_file_works_while_a_write_is_stalled_for_ever) {
    cep_profiler* profiler = start_and_stall();
    check_closed_by_deadline(profiler);
    io_release_writes();
    cep_options options = quiet_options();
    options.rank = 1;
    options.world_size = 2;
    cep_profiler* other = start_with(&options);
    record_numbers(other, 1, 100);
    close_now(other);
    check_exactly_once(other, "out/cuda_events_rank_1.jsonl");
}

static void stall_and_exit(void) {
    cep_profiler* profiler = start_and_stall();
    CHECK_EQ(cep_close(profiler, 100), CEP_ETIMEDOUT);
}

TEST(a_process_exits_while_a_write_is_stalled) {
    CHECK_CHILD_PASSES(stall_and_exit);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 100);
}
