// SPDX-License-Identifier: Apache-2.0
//
// Disks and quotas that are full, and later have space again.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "faulty_io.h"
#include "scene.h"

enum { second = 1000000000 };

static const char in_file[] = RANK_FILE;

// Some rows fit, and one more only in part.
static void fill_and_heal(int error) {
    cep_profiler* profiler = start_with_messages(100);
    io_leave_room(error, 5000);
    record_numbers(profiler, 101, 1000);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    record_and_flush(profiler, 1101, 2000);
    CHECK_EQ(count_messages(in_file, strerror(error)), 1);
    CHECK_EQ(count_all_messages(), 1);
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    record_and_flush(profiler, 3101, 100);
    close_now(profiler);
    CHECK_EQ(count_messages(in_file, ""), 2);
    CHECK_EQ(count_all_messages(), 2);
    check_has_numbers(RANK_FILE, 1, 3200);
    check_exactly_once(profiler, RANK_FILE);
    CHECK_EQ(stats_of(profiler).dropped_io, 0);
}

TEST_THAT(rows_wait_for_a_full_disk_to_have_space_again, fill_and_heal(ENOSPC))
TEST_THAT(rows_wait_for_a_quota_to_have_space_again, fill_and_heal(EDQUOT))

TEST(a_disk_that_fills_up_twice_is_reported_twice) {
    cep_profiler* profiler = start_with_messages(0);
    for (int64_t time = 0; time < 2; ++time) {
        io_leave_room(ENOSPC, 0);
        record_and_flush(profiler, 1 + 2 * time, 1);
        io_heal_writes();
        record_and_flush(profiler, 2 + 2 * time, 1);
    }
    close_now(profiler);
    CHECK_EQ(count_messages(in_file, strerror(ENOSPC)), 2);
    CHECK_EQ(count_all_messages(), 4);
    check_has_numbers(RANK_FILE, 1, 4);
}

static void limit_file_size(rlim_t bytes) {
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// SIGXFSZ keeps its default here, which kills.
TEST(rows_wait_for_the_limit_of_a_file_to_be_raised) {
    cep_profiler* profiler = start_with_messages(100);
    limit_file_size((rlim_t)file_size(RANK_FILE) + 5000);
    record_numbers(profiler, 101, 1000);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    limit_file_size(RLIM_INFINITY);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    close_now(profiler);
    CHECK_EQ(count_messages(in_file, strerror(EFBIG)), 1);
    CHECK_EQ(count_all_messages(), 2);
    check_has_numbers(RANK_FILE, 1, 1100);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(beyond_the_rows_that_can_wait_the_newest_are_lost_and_counted) {
    enum { count = 60000 };
    cep_profiler* profiler = start_with_messages(100);
    io_leave_room(ENOSPC, 0);
    record_and_flush(profiler, 101, count);
    (void)accounted_stats_of(profiler);
    CHECK(stats_of(profiler).dropped_io > 0);
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const int64_t first_lost = first_missing_number(RANK_FILE);
    record_and_flush(profiler, 101 + count, 100);
    const cep_stats stats = close_now(profiler);
    CHECK(first_lost > 10000);
    CHECK_EQ(stats.dropped_ring, 0);
    CHECK_EQ(stats.dropped_io, 100 + count - (first_lost - 1));
    check_has_numbers(RANK_FILE, 101 + count, 100);
    check_exactly_once(profiler, RANK_FILE);
    char lost[32];
    snprintf(lost, sizeof lost, "%" PRIu64, stats.dropped_io);
    CHECK_EQ(count_messages(in_file, lost), 1);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(row_at(rows_last(&all, "stats"), "dropped/io")->valuedouble, stats.dropped_io);
}

TEST(a_full_disk_is_tried_a_few_times_a_second_at_most) {
    PROFILER_WITH(start_with, quiet_options, flush_every_n_steps = 1);
    record_and_flush(profiler, 1, 1);
    io_leave_room(ENOSPC, 0);
    const int64_t began_ns = io_true_monotonic_ns(), tried_before = io_writes_tried();
    int64_t steps = 0;
    for (; io_true_monotonic_ns() - began_ns < 2LL * second; sched_yield()) record_step(profiler, ++steps, "forward");
    const int64_t tried = io_writes_tried() - tried_before;
    CHECK(tried > 0);
    CHECK(tried <= 10 + (io_true_monotonic_ns() - began_ns) / second);
    io_heal_writes();
    close_and_check(profiler);
}

TEST(a_disk_with_space_again_is_noticed_without_a_flush) {
    PROFILER_WITH(start_with, quiet_options, flush_every_n_steps = 1);
    io_leave_room(ENOSPC, 0);
    record_and_flush(profiler, 1, 100);
    io_heal_writes();
    int64_t step = 1;
    WAIT_FOR(cep_step(profiler, ++step) == CEP_OK && stats_of(profiler).written == 100);
    close_now(profiler);
}

TEST(each_flush_tries_a_full_disk_at_once) {
    cep_profiler* profiler = start();
    io_leave_room(ENOSPC, 0);
    record_numbers(profiler, 1, 10);
    for (int time = 0; time < 20; ++time) {
        const int64_t before = io_writes_tried();
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
        CHECK(io_writes_tried() > before);
    }
    io_heal_writes();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(stats_of(profiler).written, 10);
    close_now(profiler);
}

static void close_on_a_full_disk(int error) {
    cep_profiler* profiler = start_and_write(100);
    io_leave_room(error, 500);
    record_numbers(profiler, 101, 100);
    const int64_t tried_before = io_writes_tried();
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_EIO);
    CHECK_CONTAINS(cep_last_error(), RANK_FILE);
    CHECK(io_writes_tried() - tried_before <= 10);
    CHECK(stats_of(profiler).dropped_io > 90);
    check_exactly_once_leniently(profiler, RANK_FILE);
}

TEST_THAT(a_close_on_a_full_disk_does_not_wait_for_space, close_on_a_full_disk(ENOSPC))
TEST_THAT(a_close_on_a_full_quota_does_not_wait_for_space, close_on_a_full_disk(EDQUOT))
TEST_THAT(a_close_of_a_file_that_may_not_grow_does_not_wait, close_on_a_full_disk(EFBIG))
TEST_THAT(a_close_on_a_disk_that_became_read_only_does_not_wait, close_on_a_full_disk(EROFS))

TEST(a_start_after_a_full_disk_cut_a_row_begins_on_a_new_line) {
    close_on_a_full_disk(ENOSPC);
    io_heal_writes();
    cep_profiler* profiler = start();
    record_and_flush(profiler, 1001, 100);
    close_now(profiler);
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 2);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 2);
    check_has_numbers(RANK_FILE, 1001, 100);
}

TEST(a_profiler_opened_on_a_full_disk_writes_its_rows_when_there_is_space) {
    io_leave_room(ENOSPC, 0);
    cep_profiler* profiler = start();
    record_numbers(profiler, 1, 100);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    io_heal_writes();
    const rows all = rows_after_close(profiler);
    CHECK(row_is(first_row(&all), "run"));
    CHECK_EQ(rows_count(&all, "run"), 1);
    check_has_numbers(RANK_FILE, 1, 100);
    check_exactly_once(profiler, RANK_FILE);
}
