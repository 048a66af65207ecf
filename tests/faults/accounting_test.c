// SPDX-License-Identifier: Apache-2.0
//
// recorded = written + lost + not timed + open + pending holds at all times, whatever the disk does.
#include <errno.h>

#include "faulty_io.h"
#include "scene.h"

static void check_accounted_many_times(cep_profiler* profiler) {
    for (int i = 0; i < 1000; ++i) check_accounted(profiler);
}

TEST(rows_that_wait_for_a_flush_are_pending) {
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 100);
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(stats.written + stats.pending, 100);
    check_nothing_unaccounted(&stats);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).pending, 0);
    close_now(profiler);
}

TEST(the_counts_add_up_while_rows_go_from_the_rings_to_the_file) {
    cep_profiler* profiler = start();
    for (int64_t first = 1; first < 50000; first += 100) {
        record_numbers(profiler, first, 100);
        for (int i = 0; i < 20; ++i) check_accounted(profiler);
    }
    close_now(profiler);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(a_span_that_is_open_is_not_pending) {
    cep_profiler* profiler = start();
    cep_region* region = cep_region_get(profiler, "backward", CEP_KIND_AUTO);
    const cep_span span = cep_begin(region, CEP_HOST);
    CHECK_EQ(stats_of(profiler).pending, 0);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    cep_end(region, span, CEP_HOST);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).written, 1);
    close_now(profiler);
}

TEST(rows_behind_a_stalled_write_are_pending) {
    cep_profiler* profiler = start();
    record_and_flush(profiler, 1, 100);
    io_stall_writes();
    record_numbers(profiler, 101, 3000);
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    io_wait_for_stalled_write();
    check_accounted_many_times(profiler);
    CHECK_EQ(stats_of(profiler).pending, 3000);
    io_release_writes();
    close_now(profiler);
    CHECK_EQ(stats_of(profiler).pending, 0);
    CHECK_EQ(stats_of(profiler).written, 3100);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(rows_that_a_full_ring_refuses_during_a_stall_are_counted_at_once) {
    cep_profiler* profiler = start();
    record_and_flush(profiler, 1, 100);
    io_stall_writes();
    record_numbers(profiler, 101, 1);
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    io_wait_for_stalled_write();
    for (int64_t first = 102; first < 100000; first += 500) {
        record_numbers(profiler, first, 500);
        check_accounted(profiler);
    }
    io_release_writes();
    close_now(profiler);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(a_close_that_gives_up_on_a_stalled_write_leaves_nothing_pending) {
    cep_options options = quiet_options();
    options.ring_capacity = 16384;
    cep_profiler* profiler = start_with(&options);
    record_and_flush(profiler, 1, 100);
    io_stall_writes();
    record_numbers(profiler, 101, 9000);
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    io_wait_for_stalled_write();
    CHECK_EQ(cep_close(profiler, 200), CEP_ETIMEDOUT);
    const cep_stats stats = stats_of(profiler);
    check_nothing_unaccounted(&stats);
    CHECK_EQ(stats.pending, 0);
    CHECK_EQ(stats.dropped_io, 9000);
    CHECK_EQ(stats.written, 100);
    io_release_writes();
    check_accounted_many_times(profiler);
}

TEST(rows_that_failed_writes_hold_up_are_pending) {
    cep_profiler* profiler = start();
    record_and_flush(profiler, 1, 100);
    io_fail_writes(EIO, IO_FOR_EVER);
    record_numbers(profiler, 101, 1000);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    check_accounted_many_times(profiler);
    CHECK_EQ(stats_of(profiler).pending, 1000);
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).pending, 0);
    close_now(profiler);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(a_close_whose_writes_fail_counts_what_it_gives_up) {
    cep_profiler* profiler = start();
    record_and_flush(profiler, 1, 100);
    io_fail_writes(ENOSPC, IO_FOR_EVER);
    record_numbers(profiler, 101, 1000);
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_EIO);
    const cep_stats stats = stats_of(profiler);
    check_nothing_unaccounted(&stats);
    CHECK_EQ(stats.pending, 0);
    CHECK_EQ(stats.dropped_io, 1000);
    check_exactly_once(profiler, RANK_FILE);
}
