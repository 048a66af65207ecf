// SPDX-License-Identifier: Apache-2.0
//
// The file or its directory disappears while the profiler is open. Later rows go to a new file. cep_close() also checks
// for this, so only one test has to wait for the check during writes.
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faulty_io.h"
#include "scene.h"

static const char file_name[] = "cuda_events_rank_0.jsonl";
enum { second = 1000000000 };

static struct {
    cep_profiler* profiler;
    int64_t attempt;
    char* text;  // of the file after the first 100 spans
} job;

// Not the first start, so that a wrong attempt is detected.
static void begin_job(void) {
    keep_messages();
    close_now(start());
    job.profiler = start();
    record_and_flush(job.profiler, 1, 100);
    const rows all = rows_read(RANK_FILE);
    job.attempt = row_int(rows_last(&all, "run"), "attempt");
    CHECK_EQ(job.attempt, 2);
    job.text = read_text(RANK_FILE);
}

static void end_job(void) {
    record_numbers(job.profiler, 101, 100);
    close_now(job.profiler);
    CHECK_EQ(stats_of(job.profiler).written, 200);
}

// The new file begins with a run row of the same attempt and has all later rows.
static void check_new_file(void) {
    const rows all = rows_read(RANK_FILE);
    CHECK(row_is(first_row(&all), "run"));
    CHECK_EQ(row_int(first_row(&all), "attempt"), job.attempt);
    CHECK_EQ(rows_count(&all, "run"), 1);
    CHECK_EQ(rows_count(&all, SPAN), 100);
    check_has_numbers(RANK_FILE, 101, 100);
    CHECK_EQ(row_int(rows_last(&all, "stats"), "written"), 200);
    CHECK_EQ(count_messages(RANK_FILE, ""), 1);
    CHECK_EQ(count_all_messages(), 1);
}

TEST_AFTER(begin_job, rows_after_a_removal_go_to_a_new_file_and_not_to_the_removed_one) {
    CHECK_EQ(unlink(RANK_FILE), 0);
    record_numbers(job.profiler, 101, 100);
    CHECK_EQ(cep_flush(job.profiler, close_timeout_ms), CEP_OK);
    check_has_numbers(RANK_FILE, 101, 100);
    close_now(job.profiler);
    check_new_file();
}

TEST_AFTER(begin_job, a_renamed_file_does_not_change_and_a_new_one_is_made) {
    CHECK_EQ(rename(RANK_FILE, "out/cuda_events_rank_0.jsonl.1"), 0);
    end_job();
    check_new_file();
    check_text_is("out/cuda_events_rank_0.jsonl.1", job.text);
}

TEST_AFTER(begin_job, a_replaced_file_does_not_change) {
    CHECK_EQ(rename(RANK_FILE, "out/cuda_events_rank_0.jsonl.1"), 0);
    write_text(RANK_FILE, "");
    end_job();
    check_new_file();
    check_text_is("out/cuda_events_rank_0.jsonl.1", job.text);
}

TEST_AFTER(begin_job, a_removed_directory_is_made_again) {
    CHECK_EQ(unlink(RANK_FILE), 0);
    CHECK_EQ(rmdir("out"), 0);
    end_job();
    check_new_file();
}

TEST_AFTER(begin_job, a_renamed_directory_is_made_again) {
    CHECK_EQ(rename("out", "old"), 0);
    end_job();
    check_new_file();
    check_text_is("old/cuda_events_rank_0.jsonl", job.text);
}

TEST_AFTER(begin_job, a_replaced_directory_gets_a_new_file) {
    CHECK_EQ(rename("out", "old"), 0);
    make_directory();
    end_job();
    check_new_file();
    check_text_is("old/cuda_events_rank_0.jsonl", job.text);
}

TEST_AFTER(begin_job, a_relative_path_stays_the_same_when_the_trainer_changes_its_directory) {
    CHECK_EQ(mkdir("elsewhere", S_IRWXU), 0);
    CHECK_EQ(chdir("elsewhere"), 0);
    end_job();
    CHECK(!path_exists("out"));
    CHECK_EQ(chdir(".."), 0);
    check_has_numbers(RANK_FILE, 1, 200);
    CHECK_EQ(count_all_messages(), 0);
}

TEST_AFTER(begin_job, a_file_cut_to_nothing_gets_its_run_row_again) {
    CHECK_EQ(truncate(RANK_FILE, 0), 0);
    end_job();
    const rows all = rows_read(RANK_FILE);
    CHECK(row_is(first_row(&all), "run"));
    CHECK_EQ(row_int(first_row(&all), "attempt"), job.attempt);
    check_has_numbers(RANK_FILE, 101, 100);
    CHECK_EQ(rows_count(&all, SPAN), 100);
}

TEST_AFTER(begin_job, a_file_cut_within_a_line_continues_on_a_new_line) {
    CHECK_EQ(truncate(RANK_FILE, file_size(RANK_FILE) - 10), 0);
    end_job();
    const rows all = rows_read_leniently(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 3);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), job.attempt);
    check_has_numbers(RANK_FILE, 1, 99);
    check_has_numbers(RANK_FILE, 101, 100);
}

TEST(the_limit_applies_to_the_new_size_of_a_file_that_was_cut_to_nothing) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("the clock is the sanitizer's");
    cep_options options = quiet_options();
    options.max_file_bytes = 100000;
    job.profiler = start_with(&options);
    int64_t recorded = 0;
    for (int cut = 0; cut < 3; ++cut) {
        while (recorded == 0 || file_size(RANK_FILE) < 60000) {
            record_and_flush(job.profiler, recorded + 1, 50);
            recorded += 50;
        }
        CHECK_EQ(stats_of(job.profiler).dropped_file, 0);
        CHECK_EQ(truncate(RANK_FILE, 0), 0);
        io_pass_time(6LL * second);
    }
    close_now(job.profiler);
    CHECK_EQ(stats_of(job.profiler).dropped_file, 0);
    CHECK_EQ(stats_of(job.profiler).written, recorded);
    CHECK(file_size(RANK_FILE) <= options.max_file_bytes);
}

static bool record_and_find_the_file(int64_t number) {
    record_and_flush(job.profiler, number, 1);
    io_pass_time(second / 4);
    return path_exists(RANK_FILE);
}

TEST_AFTER(begin_job, a_removed_file_is_noticed_while_rows_are_written) {
    CHECK_EQ(unlink(RANK_FILE), 0);
    int64_t number = 101;
    WAIT_FOR(record_and_find_the_file(number++));
    record_and_flush(job.profiler, number, 100);
    check_has_numbers(RANK_FILE, number, 100);
    CHECK_EQ(count_messages(RANK_FILE, ""), 1);
    close_now(job.profiler);
    const rows all = rows_read(RANK_FILE);
    CHECK(row_is(first_row(&all), "run"));
    CHECK_EQ(row_int(first_row(&all), "attempt"), job.attempt);
    (void)accounted_stats_of(job.profiler);
}

TEST(a_file_removed_again_and_again_is_made_again_each_time) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("the clock is the sanitizer's");
    begin_job();
    for (int time = 0; time < 3; ++time) {
        CHECK_EQ(unlink(RANK_FILE), 0);
        WAIT_FOR(record_and_find_the_file(1000 + time));
    }
    close_now(job.profiler);
    CHECK_EQ(count_messages(RANK_FILE, file_name), 3);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(row_int(first_row(&all), "attempt"), job.attempt);
}

TEST(rows_wait_while_a_removed_file_cannot_be_made_again) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("the clock is the sanitizer's");
    begin_job();
    CHECK_EQ(unlink(RANK_FILE), 0);
    io_fail_opens(EACCES, IO_FOR_EVER);
    io_pass_time(6LL * second);
    record_numbers(job.profiler, 101, 100);
    CHECK_EQ(cep_flush(job.profiler, close_timeout_ms), CEP_EIO);
    CHECK_EQ(stats_of(job.profiler).pending, 100);
    (void)accounted_stats_of(job.profiler);
    io_fail_opens(0, 0);
    CHECK_EQ(cep_flush(job.profiler, close_timeout_ms), CEP_OK);
    close_now(job.profiler);
    const rows all = rows_read(RANK_FILE);
    CHECK(row_is(first_row(&all), "run"));
    CHECK_EQ(rows_count(&all, SPAN), 100);
    check_has_numbers(RANK_FILE, 101, 100);
}

TEST_AFTER(begin_job, a_file_that_another_profiler_made_in_place_of_a_removed_one_is_not_written) {
    CHECK_EQ(unlink(RANK_FILE), 0);
    cep_profiler* other = start();
    CHECK_EQ(cep_recording(other), 1);
    record_numbers(job.profiler, 101, 100);
    const int32_t code = cep_close(job.profiler, 500);
    CHECK(code == CEP_OK || code == CEP_EIO);
    (void)accounted_stats_of(job.profiler);
    record_numbers(other, 1001, 100);
    const rows all = rows_after_close(other);
    CHECK_EQ(rows_count(&all, "run"), 1);
    CHECK_EQ(rows_count(&all, SPAN), 100);
    check_exactly_once(other, RANK_FILE);
}

TEST(the_flat_layout_makes_a_removed_file_again_without_a_run_row) {
    PROFILER_WITH(start_with, quiet_options, layout = CEP_LAYOUT_FLAT);
    record_and_flush(profiler, 1, 100);
    CHECK_EQ(unlink(RANK_FILE), 0);
    record_numbers(profiler, 101, 50);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(all.count, 50);
    CHECK_EQ(rows_count(&all, SPAN), 50);
}
