// SPDX-License-Identifier: Apache-2.0
//
// Writes that fail for a while, are short, are interrupted, or have a stale handle.
#include <errno.h>
#include <string.h>

#include "faulty_io.h"
#include "scene.h"

enum { second = 1000000000, millisecond = 1000000 };

static void check_all_written(cep_profiler* profiler, uint64_t count) {
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(stats.written, count);
    CHECK_EQ(stats.bytes_written, file_size(RANK_FILE));
    check_exactly_once(profiler, RANK_FILE);
    check_has_numbers(RANK_FILE, 1, (int64_t)count);
    const rows all = rows_read(RANK_FILE);
    CHECK(row_is(first_row(&all), "run"));
    CHECK(row_is(&all.items[all.count - 1], "stats"));
    CHECK_EQ(row_int(&all.items[all.count - 1], "written"), count);
}

static void write_in_pieces(int64_t count) {
    cep_profiler* profiler = start_and_write(count / 2);
    record_numbers(profiler, count / 2 + 1, count / 2);
    close_now(profiler);
    check_all_written(profiler, (uint64_t)count);
}

TEST(short_writes_of_a_few_bytes_keep_every_byte) {
    io_cut_writes_short(7);
    write_in_pieces(1000);
}

TEST(interrupted_writes_keep_every_byte) {
    io_interrupt_every_second_write();
    write_in_pieces(2000);
}

TEST(interrupted_and_short_writes_are_not_reported) {
    keep_messages();
    io_cut_writes_short(100);
    io_interrupt_every_second_write();
    write_in_pieces(200);
    CHECK_EQ(count_all_messages(), 0);
}

// ---- The last write

static void close_through(int error, int64_t times) {
    cep_profiler* profiler = start_and_write(100);
    record_numbers(profiler, 101, 100);
    io_fail_writes(error, times);
    close_now(profiler);
    CHECK_EQ(io_writes_failed(), times);
    check_all_written(profiler, 200);
}

TEST_THAT(a_close_retries_a_write_that_failed_once, close_through(EIO, 1))
TEST_THAT(a_close_retries_a_write_that_failed_a_few_times, close_through(EIO, 4))
TEST_THAT(a_close_retries_if_the_file_was_busy, close_through(EAGAIN, 4))
TEST_THAT(a_close_retries_if_the_file_was_stale, close_through(ESTALE, 2))
TEST_THAT(a_close_is_not_stopped_by_many_interruptions, close_through(EINTR, 1000))

TEST(a_close_gives_up_on_a_broken_disk_at_its_deadline) {
    cep_profiler* profiler = start_and_write(100);
    record_numbers(profiler, 101, 100);
    io_fail_writes(EIO, IO_FOR_EVER);
    const int64_t began_ns = io_true_monotonic_ns();
    CHECK_EQ(cep_close(profiler, 1000), CEP_EIO);
    CHECK(io_true_monotonic_ns() - began_ns < 2LL * second);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    CHECK_EQ(stats_of(profiler).dropped_io, 100);
    CHECK_EQ(stats_of(profiler).pending, 0);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(a_close_with_timeout_0_gives_up_on_a_broken_disk_at_once) {
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 100);
    io_fail_writes(EIO, IO_FOR_EVER);
    const int64_t began_ns = io_true_monotonic_ns();
    const int32_t code = cep_close(profiler, 0);
    CHECK(code == CEP_EIO || code == CEP_ETIMEDOUT);
    CHECK(io_true_monotonic_ns() - began_ns < second);
    (void)accounted_stats_of(profiler);
    CHECK_EQ(stats_of(profiler).pending, 0);
}

TEST(a_failing_disk_is_reported_once_and_its_recovery_once) {
    cep_profiler* profiler = start_with_messages(100);
    io_fail_writes(EIO, IO_FOR_EVER);
    record_and_flush(profiler, 101, 10000);
    CHECK_EQ(count_messages(RANK_FILE, strerror(EIO)), 1);
    CHECK_EQ(count_all_messages(), 1);
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    close_now(profiler);
    CHECK_EQ(count_all_messages(), 2);
    check_all_written(profiler, 10100);
}

// Without another flush, a row alone would not be due for a write before 5 s.
TEST(a_failed_write_is_tried_again_soon) {
    cep_profiler* profiler = start_and_write(100);
    io_fail_writes(EIO, 1);
    record_numbers(profiler, 101, 1);
    const int64_t began_ns = io_true_monotonic_ns();
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    WAIT_FOR(stats_of(profiler).written == 101);
    CHECK(io_true_monotonic_ns() - began_ns < 4LL * second);
    close_and_check(profiler);
}

// The writer goes on taking records from the ring, and tries to write after pauses of 0.1 to 5 s only. 4 MiB of waiting
// rows are 42,000 at most; the ring has room for all others that are pending.
TEST(writes_that_fail_slowly_do_not_overflow_the_rings) {
    enum { rounds = 300, portion = 1000, ring_capacity = 131072, most_pending = 42000 + ring_capacity / 2 };
    PROFILER_WITH(start_with, quiet_options, ring_capacity = ring_capacity);
    record_and_flush(profiler, 1, 1);
    io_fail_writes(EIO, IO_FOR_EVER);
    io_slow_writes_down(millisecond);
    const int64_t began_ns = io_true_monotonic_ns();
    for (int64_t round = 0; round < rounds; ++round) {
        record_numbers(profiler, 2 + round * portion, portion);
        WAIT_FOR(stats_of(profiler).pending < most_pending);
    }
    const int64_t tries = io_writes_failed();
    CHECK(tries < 10 + (io_true_monotonic_ns() - began_ns) / second);
    io_heal_writes();
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).dropped_ring, 0);
    CHECK(stats_of(profiler).dropped_io > 0);
    check_exactly_once(profiler, RANK_FILE);
}

// ---- Stale handles

TEST(a_stale_file_is_opened_again) {
    cep_profiler* profiler = start_with_messages(100);
    io_fail_writes_until_reopened(ESTALE);
    record_numbers(profiler, 101, 100);
    WAIT_FOR(cep_flush(profiler, close_timeout_ms) == CEP_OK);
    record_and_flush(profiler, 201, 100);
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 300);
    const rows all = rows_read(RANK_FILE);
    const int64_t attempt = row_int(first_row(&all), "attempt");
    for (size_t i = 0; i < rows_count(&all, "run"); ++i)
        CHECK_EQ(row_int(rows_nth(&all, "run", i), "attempt"), attempt);
}

TEST(a_file_that_is_stale_at_close_is_opened_again) {
    cep_profiler* profiler = start_and_write(100);
    record_numbers(profiler, 101, 100);
    io_fail_writes_until_reopened(ESTALE);
    close_and_check(profiler);
    check_has_numbers(RANK_FILE, 1, 200);
}
