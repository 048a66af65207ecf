// SPDX-License-Identifier: Apache-2.0
//
// recorded = written + lost + not timed + open + pending holds at all times, whatever the disk does.
#include <errno.h>

#include "faulty_io.h"
#include "scene.h"

static void check_accounted_many_times(cep_profiler* profiler) {
    for (int i = 0; i < 1000; ++i) (void)accounted_stats_of(profiler);
}

TEST(rows_that_wait_for_a_flush_are_pending) {
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 100);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.written + stats.pending, 100);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).pending, 0);
    close_now(profiler);
}

TEST(the_counts_add_up_while_rows_go_from_the_rings_to_the_file) {
    cep_profiler* profiler = start();
    for (int64_t first = 1; first < 50000; first += 100) {
        record_numbers(profiler, first, 100);
        for (int i = 0; i < 20; ++i) (void)accounted_stats_of(profiler);
    }
    close_and_check(profiler);
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

TEST(rows_that_failed_writes_hold_up_are_pending) {
    cep_profiler* profiler = start_and_write(100);
    io_fail_writes(EIO, IO_FOR_EVER);
    record_numbers(profiler, 101, 1000);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    check_accounted_many_times(profiler);
    CHECK_EQ(stats_of(profiler).pending, 1000);
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).pending, 0);
    close_and_check(profiler);
}
