// SPDX-License-Identifier: Apache-2.0
//
// A system clock that is set while the profiler runs.

#include "faulty_io.h"
#include "scene.h"

static const int64_t second = 1000000000, hour = 3600 * INT64_C(1000000000);

enum { clock_reading_interval_s = 11 };

static int64_t file_clock_error_ns(void) {
    const rows all = rows_read(RANK_FILE);
    return row_int(rows_last(&all, "run"), "clock_error_ns");
}

static void record_for_a_while(cep_profiler* profiler) {
    for (int round = 0; round < 3; ++round) {
        record_spans(profiler, "forward", 10);
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
        io_pass_time(clock_reading_interval_s * second);
        record_spans(profiler, "forward", 10);
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    }
}

// Steps the clock; each step counts from its first reading. Records spans before, across and after each step.
static cep_profiler* step_clock(const int64_t* steps_ns, int count) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("the clock is the sanitizer's");
    cep_profiler* profiler = start_with_messages(0);
    record_for_a_while(profiler);
    for (int i = 0; i < count; ++i) {
        const cep_span across = cep_begin(cep_region_get(profiler, "across", CEP_KIND_AUTO), CEP_HOST);
        io_step_clock(steps_ns[i]);
        cep_end(cep_region_get(profiler, "across", CEP_KIND_AUTO), across, CEP_HOST);
        record_for_a_while(profiler);
    }
    return profiler;
}

static void check_times_go_on(void) {
    const rows all = rows_read(RANK_FILE);
    int64_t latest = 0, first = 0;
    for (size_t i = 0; i < rows_count(&all, SPAN); ++i) {
        const int64_t start_ns = row_int(rows_nth(&all, SPAN, i), "start_ns");
        CHECK(start_ns >= latest);
        latest = start_ns;
        if (i == 0) first = start_ns;
    }
    CHECK(latest - first < hour);
    for (size_t i = 0; i < rows_count(&all, SPAN); ++i) CHECK(row_number(rows_nth(&all, SPAN, i), "duration_ms") >= 0);
}

static void check_one_step(int64_t step_ns) {
    cep_profiler* profiler = step_clock(&step_ns, 1);
    close_now(profiler);
    check_times_go_on();
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 2);
    CHECK(row_int(rows_nth(&all, "run", 0), "clock_error_ns") < second);
    CHECK(file_clock_error_ns() >= (step_ns < 0 ? -step_ns : step_ns));
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 1);
    CHECK_EQ(row_int(rows_last(&all, "run"), "start_unix_ns"), row_int(rows_nth(&all, "run", 0), "start_unix_ns"));
    CHECK_EQ(count_messages("clock", ""), 1);
    CHECK_EQ(count_all_messages(), 1);
    check_exactly_once(profiler, RANK_FILE);
}

TEST_THAT(times_continue_when_the_clock_is_set_back_by_hours_and_the_error_is_stated, check_one_step(-20 * hour))
TEST_THAT(times_continue_when_the_clock_is_set_forward_by_hours_and_the_error_is_stated, check_one_step(20 * hour))
TEST_THAT(a_clock_set_back_by_a_second_is_stated, check_one_step(-second))
TEST(a_clock_set_back_to_1970_is_stated) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_REALTIME, &now), 0);
    check_one_step(-(int64_t)now.tv_sec * second);
}

TEST(a_clock_that_is_not_set_causes_no_message_and_no_row) {
    cep_profiler* profiler = step_clock(NULL, 0);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "run"), 1);
    CHECK_EQ(count_all_messages(), 0);
}

TEST(a_clock_set_twice_is_stated_with_the_larger_error) {
    const int64_t steps_ns[] = {-20 * hour, 50 * hour};
    cep_profiler* profiler = step_clock(steps_ns, 2);
    close_now(profiler);
    check_times_go_on();
    CHECK(file_clock_error_ns() >= 20 * hour);
    check_exactly_once(profiler, RANK_FILE);
}

TEST(a_start_after_the_clock_was_set_uses_the_new_clock) {
    const int64_t step_ns = 20 * hour;
    close_now(step_clock(&step_ns, 1));
    cep_profiler* profiler = start();
    record_spans(profiler, "later", 1);
    const rows all = rows_after_close(profiler);
    CHECK(row_int(rows_span(&all, "later", 0), "start_ns") - row_int(rows_span(&all, "forward", 0), "start_ns") >=
          step_ns);
    CHECK(file_clock_error_ns() < second);
}

TEST(waits_end_by_their_timeout_when_the_clock_is_set_back) {
    if (!IO_HAS_THREADS_AND_CLOCKS) check_skip("the clock is the sanitizer's");
    cep_profiler* profiler = start_and_write(1);
    io_stall_writes();
    record_numbers(profiler, 2, 1);
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    io_wait_for_stalled_write();
    io_step_clock(-20 * hour);
    CHECK_EQ(cep_flush(profiler, 200), CEP_ETIMEDOUT);
    io_step_clock(40 * hour);
    CHECK_EQ(cep_flush(profiler, 200), CEP_ETIMEDOUT);
    io_release_writes();
    close_and_check(profiler);
}
