// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer.h"

// End of the last complete span row of the file.
static long last_span_end(const rows* all) {
    return rows_last(all, SPAN)->end_offset;
}

static void limit_file_size(rlim_t bytes) {
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// SIGXFSZ keeps its default here, which kills: the trainer must not get it for the profiler's writes.
TEST(a_full_file_system_loses_rows_and_counts_them) {
    cep_profiler* profiler = open_at_step(0);
    record_spans(profiler, "forward", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const rlim_t limit = (rlim_t)file_size(RANK_FILE) + 20000;
    limit_file_size(limit);
    record_spans(profiler, "forward", 2000);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_EIO);
    const cep_stats stats = stats_of(profiler);
    CHECK(stats.dropped_io > 0);
    CHECK_EQ(stats.recorded, 2010);
    check_nothing_unaccounted(&stats);
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), stats.written);
}

TEST(after_a_write_error_the_next_rows_start_on_a_new_line) {
    cep_profiler* profiler = open_at_step(0);
    record_spans(profiler, "forward", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    limit_file_size((rlim_t)file_size(RANK_FILE) + 1000);
    record_spans(profiler, "forward", 100);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    limit_file_size(RLIM_INFINITY);
    record_spans(profiler, "backward", 100);
    (void)cep_close(profiler, close_timeout_ms);
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "backward"), 100);
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(rows_count(&all, SPAN), stats.written);
    check_nothing_unaccounted(&stats);
    const row* last = rows_last(&all, "stats");
    CHECK_EQ(row_at(last, "dropped/io")->valuedouble, stats.dropped_io);
}

TEST(a_link_to_a_full_device_is_refused_and_named) {
    if (access("/dev/full", W_OK) != 0) check_skip("no /dev/full");
    CHECK_EQ(mkdir("out", S_IRWXU), 0);
    CHECK_EQ(symlink("/dev/full", RANK_FILE), 0);
    const cep_options options = host_options();
    cep_profiler* profiler = NULL;
    CHECK_EQ(cep_open(&options, &profiler), CEP_EIO);
    CHECK(profiler == NULL);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    CHECK_CONTAINS(cep_last_error(), "symbolic link");
}

TEST(rows_past_the_largest_file_size_are_dropped_and_counted) {
    cep_options options = host_options();
    options.max_file_bytes = 8192;
    cep_profiler* profiler = open_with(&options);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 1000);
    close_now(profiler);
    const cep_stats stats = stats_of(profiler);
    CHECK(stats.dropped_file > 0 && stats.written > 0);
    CHECK_EQ(stats.recorded, 1000);
    check_nothing_unaccounted(&stats);
    const rows all = rows_read(RANK_FILE);
    CHECK(last_span_end(&all) <= options.max_file_bytes);
    CHECK_EQ(rows_count(&all, SPAN), stats.written);
}

TEST(the_stats_row_counts_rows_lost_to_the_largest_file_size) {
    cep_options options = host_options();
    options.max_file_bytes = 8192;
    cep_profiler* profiler = open_with(&options);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 1000);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_at(rows_last(&all, "stats"), "dropped/file")->valuedouble, stats_of(profiler).dropped_file);
}

TEST(the_largest_file_size_includes_rows_of_earlier_starts) {
    cep_options options = host_options();
    options.max_file_bytes = 8192;
    for (int start = 0; start < 5; ++start) {
        cep_profiler* profiler = open_with(&options);
        CHECK_EQ(cep_step(profiler, 0), CEP_OK);
        record_spans(profiler, "forward", 1000);
        close_now(profiler);
        CHECK(stats_of(profiler).dropped_file > 0);
    }
    const rows all = rows_read(RANK_FILE);
    CHECK(last_span_end(&all) <= options.max_file_bytes);
}

TEST(a_largest_file_size_of_one_byte_drops_everything) {
    cep_options options = host_options();
    options.max_file_bytes = 1;
    cep_profiler* profiler = open_with(&options);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 100);
    close_now(profiler);
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(stats.written, 0);
    CHECK_EQ(stats.dropped_file, 100);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 0);
}

TEST(a_directory_removed_under_the_profiler_is_no_crash) {
    cep_profiler* profiler = open_at_step(0);
    CHECK_EQ(unlink(RANK_FILE), 0);
    CHECK_EQ(rmdir("out"), 0);
    record_spans(profiler, "forward", 10);
    (void)cep_close(profiler, close_timeout_ms);
    const cep_stats stats = stats_of(profiler);
    check_nothing_unaccounted(&stats);
}
