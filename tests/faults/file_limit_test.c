// SPDX-License-Identifier: Apache-2.0
//
// max_file_bytes limits everything that is written, whatever the rows are.
#include <stdio.h>

#include "faulty_io.h"
#include "scene.h"

enum { limit_bytes = 100000, slack_bytes = 4096 };

static cep_options limited_options(void) {
    cep_options options = quiet_options();
    options.max_file_bytes = limit_bytes;
    return options;
}

static void check_within_limit(void) {
    if (file_size(RANK_FILE) > limit_bytes)
        check_fail(__FILE__, __LINE__, "the file has %ld bytes, %d are allowed", file_size(RANK_FILE), limit_bytes);
}

static void check_used_up(cep_profiler* profiler) {
    check_within_limit();
    CHECK(file_size(RANK_FILE) > limit_bytes - slack_bytes);
    CHECK(stats_of(profiler).dropped_file > 0);
    check_exactly_once(profiler, RANK_FILE);
}

static void record_and_close(cep_profiler* profiler, int64_t first, int64_t count) {
    record_and_flush(profiler, first, count);
    close_now(profiler);
}

TEST(many_flushes_that_lose_rows_stay_within_the_limit) {
    const cep_options options = limited_options();
    cep_profiler* profiler = start_with(&options);
    for (int64_t flush = 0; flush < 1000; ++flush) {
        record_numbers(profiler, 1 + flush * 20, 20);
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
        check_within_limit();
    }
    close_now(profiler);
    check_used_up(profiler);
}

TEST(a_long_run_fills_the_file_up_to_the_limit) {
    const cep_options options = limited_options();
    cep_profiler* profiler = start_with(&options);
    record_and_close(profiler, 1, 20000);
    check_used_up(profiler);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(row_at(rows_last(&all, "stats"), "dropped/file")->valuedouble, stats_of(profiler).dropped_file);
}

TEST(rows_within_the_limit_are_the_first_ones) {
    const cep_options options = limited_options();
    cep_profiler* profiler = start_with(&options);
    record_and_close(profiler, 1, 5000);
    CHECK_EQ(first_missing_number(RANK_FILE) - 1, stats_of(profiler).written);
}

TEST(restarts_stay_within_the_limit) {
    const cep_options options = limited_options();
    for (int64_t start = 0; start < 100; ++start) {
        cep_profiler* profiler = start_with(&options);
        record_numbers(profiler, 1 + start * 100, 100);
        close_now(profiler);
        check_within_limit();
        (void)accounted_stats_of(profiler);
    }
    (void)rows_read(RANK_FILE);
    check_no_number_twice(RANK_FILE);
}

TEST(run_rows_stay_within_the_limit) {
    const cep_options options = limited_options();
    cep_profiler* profiler = start_with(&options);
    for (int64_t time = 0; time < 500; ++time) {
        char meta[64];
        snprintf(meta, sizeof meta, "{\"epoch\":%d}", (int)time);
        CHECK_EQ(cep_set_meta(profiler, meta), CEP_OK);
        record_and_flush(profiler, 1 + time, 1);
        check_within_limit();
    }
    close_now(profiler);
    check_within_limit();
    check_exactly_once(profiler, RANK_FILE);
}

TEST(a_run_row_larger_than_the_limit_is_not_written) {
    char meta[8192] = "{\"text\":\"";
    for (size_t i = 9; i < sizeof meta - 3; ++i) meta[i] = 'x';
    snprintf(meta + sizeof meta - 3, 3, "\"}");
    cep_options options = quiet_options();
    options.max_file_bytes = 4000;
    options.meta = meta;
    cep_profiler* profiler = start_with(&options);
    record_and_close(profiler, 1, 100);
    CHECK(file_size(RANK_FILE) <= options.max_file_bytes);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(open_rows_stay_within_the_limit) {
    PROFILER_WITH(start_with, limited_options, max_file_bytes = 20000);
    cep_region* region = cep_region_get(profiler, "backward", CEP_KIND_AUTO);
    for (int i = 0; i < 200; ++i) (void)cep_begin(region, CEP_HOST);
    record_and_close(profiler, 1, 200);
    CHECK(file_size(RANK_FILE) <= options.max_file_bytes);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(every_small_limit_is_kept) {
    for (int64_t bytes = 1; bytes < 4000; bytes += 97) {
        (void)remove(RANK_FILE);
        PROFILER_WITH(start_with, quiet_options, max_file_bytes = bytes);
        record_and_close(profiler, 1, 30);
        CHECK(file_size(RANK_FILE) <= bytes);
        check_exactly_once(profiler, RANK_FILE);
    }
}

TEST(the_flat_layout_fills_the_file_up_to_the_limit) {
    PROFILER_WITH(start_with, limited_options, layout = CEP_LAYOUT_FLAT);
    record_and_close(profiler, 1, 5000);
    check_within_limit();
    CHECK(file_size(RANK_FILE) > limit_bytes - slack_bytes);
    CHECK_EQ(count_spans_in_file(RANK_FILE), stats_of(profiler).written);
    (void)accounted_stats_of(profiler);
}

TEST(a_file_that_is_already_larger_than_the_limit_does_not_change) {
    make_directory();
    FILE* file = fopen(RANK_FILE, "w");
    CHECK(file != NULL);
    for (int i = 0; i < 5000; ++i) fputs("{\"name\":\"forward\",\"step\":1,\"rank\":0,\"duration_ms\":1.5}\n", file);
    CHECK_EQ(fclose(file), 0);
    const long before = file_size(RANK_FILE);
    const cep_options options = limited_options();
    cep_profiler* profiler = start_with(&options);
    record_and_close(profiler, 1, 100);
    CHECK_EQ(file_size(RANK_FILE), before);
    CHECK_EQ(stats_of(profiler).dropped_file, 100);
}
