// SPDX-License-Identifier: Apache-2.0
//
// Resuming a file that earlier starts have made large.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

enum { mebibyte = 1 << 20, large_bytes = 64 * mebibyte, stats_interval_bytes = 4 * mebibyte };
// Limit of the bytes read from any file: the 8 MiB that are searched, and the ends of the lines there.
enum { most_read_bytes = 9 * mebibyte };

// The rows of three starts, and the part of them that is repeated to make the file large.
static struct {
    int64_t attempt;
    char *span, *stats;
} earlier;

static void start_three_times(void) {
    for (int i = 0; i < 3; ++i) {
        cep_profiler* profiler = start();
        record_numbers(profiler, 1000 + i, 1);
        close_now(profiler);
    }
    const rows all = rows_read(RANK_FILE);
    earlier.attempt = row_int(rows_last(&all, "run"), "attempt");
    earlier.span = rows_last(&all, SPAN)->text;
    earlier.stats = rows_last(&all, "stats")->text;
}

static void append_rows(bool with_stats) {
    FILE* file = fopen(RANK_FILE, "a");
    CHECK(file != NULL);
    long next_stats = stats_interval_bytes;
    for (long bytes = 0; bytes < large_bytes;) {
        bytes += fprintf(file, "%s\n", earlier.span);
        if (bytes < next_stats || !with_stats) continue;
        bytes += fprintf(file, "%s\n", earlier.stats);
        next_stats += stats_interval_bytes;
    }
    for (int i = 0; i < 100; ++i) fprintf(file, "%s\n", earlier.span);
    CHECK_EQ(fclose(file), 0);
}

static void append(const char* text) {
    const int descriptor = open(RANK_FILE, O_WRONLY | O_APPEND);
    CHECK(descriptor >= 0);
    CHECK_EQ(write(descriptor, text, strlen(text)), strlen(text));
    CHECK_EQ(close(descriptor), 0);
}

// The file's rows from an offset on.
static rows rows_from(long offset) {
    FILE *file = fopen(RANK_FILE, "r"), *tail = fopen("tail", "w");
    CHECK(file != NULL && tail != NULL);
    CHECK_EQ(fseek(file, offset, SEEK_SET), 0);
    for (int c; (c = fgetc(file)) != EOF;) fputc(c, tail);
    fclose(file);
    CHECK_EQ(fclose(tail), 0);
    return rows_read("tail");
}

static rows resume(void) {
    const long before = file_size(RANK_FILE);
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 1000);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.written, 1000);
    check_has_numbers(RANK_FILE, 1, 999);
    return rows_from(before);
}

TEST_AFTER(start_three_times, the_attempt_is_found_in_a_large_file) {
    append_rows(true);
    const rows added = resume();
    CHECK(row_is(first_row(&added), "run"));
    CHECK_EQ(row_int(first_row(&added), "attempt"), earlier.attempt + 1);
    CHECK_EQ(rows_count(&added, SPAN), 1000);
}

TEST_AFTER(start_three_times, a_large_file_is_read_from_its_end_and_no_further_than_needed) {
    append_rows(true);
    const int64_t before = io_bytes_read();
    (void)resume();
    CHECK(io_bytes_read() > before);
    CHECK(io_bytes_read() - before <= most_read_bytes);
}

TEST_AFTER(start_three_times, a_large_file_without_stats_rows_is_appended_to_without_reading_all_of_it) {
    append_rows(false);
    const int64_t before = io_bytes_read();
    const rows added = resume();
    CHECK(io_bytes_read() - before <= most_read_bytes);
    CHECK(row_is(first_row(&added), "run"));
    CHECK(row_int(first_row(&added), "attempt") > 0);
    CHECK_EQ(rows_count(&added, SPAN), 1000);
}

TEST_AFTER(start_three_times, only_open_reads_the_file) {
    append_rows(true);
    cep_profiler* profiler = start();
    const int64_t after_open = io_bytes_read();
    CHECK(after_open > 0);
    record_numbers(profiler, 1, 1000);
    close_now(profiler);
    CHECK_EQ(io_bytes_read(), after_open);
}

TEST_AFTER(start_three_times, the_attempt_is_found_in_a_large_file_with_an_incomplete_line) {
    append_rows(true);
    append("{\"name\":\"forward\",\"step\":1,\"ra");
    const long before = file_size(RANK_FILE);
    close_now(start());
    const rows added = rows_from(before + 1);
    CHECK_EQ(row_int(rows_nth(&added, "run", 0), "attempt"), earlier.attempt + 1);
}

// The longest part of the file without a row that has the attempt.
static long longest_gap_bytes(void) {
    const rows all = rows_read(RANK_FILE);
    long longest = 0, last = 0;
    for (size_t i = 0; i < all.count; ++i) {
        if (!row_is(&all.items[i], "run") && !row_is(&all.items[i], "stats")) continue;
        if (all.items[i].end_offset - last > longest) longest = all.items[i].end_offset - last;
        last = all.items[i].end_offset;
    }
    const long rest = file_size(RANK_FILE) - last;
    return rest > longest ? rest : longest;
}

static void record_much_and_die(void) {
    cep_profiler* profiler = start();
    for (int64_t first = 1; file_size(RANK_FILE) < 3 * stats_interval_bytes; first += 10000)
        record_and_flush(profiler, first, 10000);
    raise(SIGKILL);
}

TEST(a_start_that_was_killed_after_many_rows_leaves_its_attempt_within_reach) {
    close_now(start());
    CHECK(WIFSIGNALED(check_in_child(record_much_and_die)));
    CHECK(longest_gap_bytes() <= stats_interval_bytes + mebibyte);
    const long before = file_size(RANK_FILE);
    close_now(start());
    const rows added = rows_from(before);
    CHECK_EQ(row_int(rows_nth(&added, "run", 0), "attempt"), 3);
}

// A crash of the machine can leave a file with its length but without its data.
TEST_AFTER(start_three_times, rows_after_a_hole_of_a_gigabyte_start_on_a_new_line) {
    const long before = 1L << 30;
    CHECK_EQ(truncate(RANK_FILE, before), 0);
    const int64_t read_before = io_bytes_read();
    close_now(start());
    CHECK(io_bytes_read() - read_before <= most_read_bytes);
    FILE* file = fopen(RANK_FILE, "r");
    CHECK(file != NULL);
    CHECK_EQ(fseek(file, before, SEEK_SET), 0);
    CHECK_EQ(fgetc(file), '\n');
    fclose(file);
    const rows added = rows_from(before + 1);
    CHECK_EQ(rows_count(&added, "run"), 1);
}

TEST_AFTER(start_three_times, one_line_longer_than_what_is_read_does_not_stop_a_start) {
    FILE* file = fopen(RANK_FILE, "a");
    CHECK(file != NULL);
    for (int i = 0; i < 10 * mebibyte; ++i) fputc('x', file);
    CHECK_EQ(fclose(file), 0);
    const int64_t before = io_bytes_read();
    const long size = file_size(RANK_FILE);
    close_now(start());
    CHECK(io_bytes_read() - before <= most_read_bytes);
    const rows added = rows_from(size + 1);
    CHECK_EQ(rows_count(&added, "run"), 1);
}
