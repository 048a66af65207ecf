// SPDX-License-Identifier: Apache-2.0
//
// The option max_overhead_percent: the library records fewer steps rather than take more of the trainer's time.
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trainer.h"

// A program that does nothing but record in each step is far above this bound.
static const double tight_percent = 0.1;

// Writes standard error to a file from now on.
static void capture_messages(void) {
    check_report_to(dup(STDERR_FILENO));
    const int file = open("messages", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK(dup2(file, STDERR_FILENO) >= 0);
}

static size_t count_messages(const char* part) {
    char text[8192] = "";
    FILE* file = fopen("messages", "r");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    size_t count = 0;
    for (const char* at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) ++count;
    return count;
}

// Takes that many steps of the stride, with one span each. Returns how many were recorded.
static int64_t take_steps(cep_profiler* profiler, int64_t first, int64_t count, int64_t stride) {
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    int64_t recorded = 0;
    for (int64_t i = 0; i < count; ++i) {
        CHECK_EQ(cep_step(profiler, first + i * stride), CEP_OK);
        recorded += cep_recording(profiler);
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    }
    return recorded;
}

// A batch has many more calls than the library needs to decide, and fewer spans than the ring holds.
enum { batch_steps = 20000 };

static cep_options bounded_options(double percent) {
    cep_options options = host_options();
    options.max_overhead_percent = percent;
    options.ring_capacity = 1 << 16;
    return options;
}

// Takes steps of the user's stride until some are left out, and a batch more. The writer looks at the cost in each
// flush, if not before.
static void train_until_lengthened(cep_profiler* profiler, int64_t stride) {
    bool done = false;
    bool lengthened = false;
    for (int64_t first = 0; !done; first += batch_steps * stride) {
        done = lengthened;
        lengthened = take_steps(profiler, first, batch_steps, stride) < batch_steps;
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    }
}

static bool is_power_of_two(int64_t number) {
    return number > 0 && (number & (number - 1)) == 0;
}

// Each span is of a step that the stride in force at that time records. The step after the change may still be recorded
// with the stride before it. Returns the changes.
static size_t check_spans_follow_the_stride(const rows* all, int64_t stride) {
    size_t changes = 0;
    int64_t last_step = -1, next_stride = stride;
    for (size_t i = 0; i < all->count; ++i) {
        const row* r = &all->items[i];
        if (row_is(r, "mark")) {
            CHECK_TEXT(row_text(r, "name"), "cep_stride");
            CHECK_EQ(row_int(r, "from"), next_stride);
            next_stride = row_int(r, "to");
            CHECK(next_stride % stride == 0 && is_power_of_two(next_stride / stride));
            last_step = row_int(r, "step") + stride;
            ++changes;
        }
        if (row_is(r, SPAN) && row_int(r, "step") > last_step) CHECK_EQ(row_int(r, "step") % next_stride, 0);
    }
    return changes;
}

TEST(the_stride_is_lengthened_rather_than_the_bound_exceeded) {
    cep_options options = bounded_options(tight_percent);
    options.record_every_n_steps = 3;
    cep_profiler* profiler = open_with(&options);
    train_until_lengthened(profiler, 3);
    const rows all = rows_after_close(profiler);
    CHECK(check_spans_follow_the_stride(&all, 3) >= 1);
    const row* change = rows_nth(&all, "mark", 0);
    CHECK(row_int(change, "to") > 3);
    CHECK(row_number(change, "cost_percent") > tight_percent);
    CHECK(row_number(change, "max_overhead_percent") == tight_percent);
    CHECK(row_int(change, "start_ns") > INT64_C(1600000000000000000));
}

TEST(the_library_decides_within_50_recorded_steps) {
    enum { steps = 50, stride = 10 };
    cep_options options = bounded_options(1e-6);
    options.record_every_n_steps = stride;
    cep_profiler* profiler = open_with(&options);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int64_t step = 0; step <= steps * stride; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        CHECK_EQ(cep_phase(profiler, region, CEP_HOST), CEP_OK);  // one call a step
    }
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(cep_phase(profiler, NULL, CEP_HOST), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK(rows_count(&all, "mark") >= 1);
    CHECK(row_int(rows_nth(&all, "mark", 0), "step") <= steps * stride);
}

TEST(steps_that_the_longer_stride_leaves_out_are_not_lost) {
    const cep_options options = bounded_options(tight_percent);
    cep_profiler* profiler = open_with(&options);
    train_until_lengthened(profiler, 1);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.written, stats.recorded);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), stats.recorded);
    CHECK_EQ(row_int(rows_last(&all, "stats"), "recorded"), stats.recorded);
}

TEST(each_change_is_said_once_on_standard_error) {
    capture_messages();
    const cep_options options = bounded_options(tight_percent);
    cep_profiler* profiler = open_with(&options);
    train_until_lengthened(profiler, 1);
    const rows all = rows_after_close(profiler);
    const row* change = rows_nth(&all, "mark", 0);
    char expected[256];
    snprintf(expected, sizeof expected, "lengthened from 1 to %lld at step %lld: cep took ",
             (long long)row_int(change, "to"), (long long)row_int(change, "step"));
    CHECK_EQ(count_messages(expected), 1);
    CHECK_EQ(count_messages("the stride was"), rows_count(&all, "mark"));
    CHECK(count_messages("max_overhead_percent is 0.1") >= 1);
}

// A file made anew says the stride that its rows have.
TEST(a_run_row_is_followed_by_the_last_change) {
    const cep_options options = bounded_options(tight_percent);
    cep_profiler* profiler = open_with(&options);
    train_until_lengthened(profiler, 1);
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":1}"), CEP_OK);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const rows all = rows_after_close(profiler);
    const size_t marks = rows_count(&all, "mark");
    CHECK(marks >= 2);
    const row *last = rows_nth(&all, "mark", marks - 1), *before = rows_nth(&all, "mark", marks - 2);
    CHECK_TEXT(last->text, before->text);
    CHECK(row_is(last - 1, "run") && row_int(last - 1, "dp") == 1);
}

TEST(a_flat_file_has_no_row_of_a_change) {
    cep_options options = bounded_options(tight_percent);
    options.layout = CEP_LAYOUT_FLAT;
    cep_profiler* profiler = open_with(&options);
    train_until_lengthened(profiler, 1);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), all.count);
}

// Every step does a little work, of which recording takes a few thousandths.
static void work(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    const struct timespec begin = now;
    while ((now.tv_sec - begin.tv_sec) * INT64_C(1000000000) + now.tv_nsec - begin.tv_nsec < 20000)
        CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
}

static void check_never_lengthened(double percent) {
    capture_messages();
    const cep_options options = bounded_options(percent);
    cep_profiler* profiler = open_with(&options);
    const int64_t steps = 8000;
    for (int64_t step = 0; step < steps; ++step) {
        CHECK_EQ(take_steps(profiler, step, 1, 1), 1);
        work();
    }
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), steps);
    CHECK_EQ(rows_count(&all, "mark"), 0);
    CHECK_EQ(count_messages("stride"), 0);
}

TEST_THAT(a_generous_bound_changes_nothing, check_never_lengthened(100))
TEST_THAT(without_a_bound_nothing_changes, check_never_lengthened(0))

TEST(the_run_row_says_the_bound) {
    cep_options options = host_options();
    options.max_overhead_percent = 0.25;
    close_now(open_with(&options));
    const rows all = rows_read(RANK_FILE);
    const cJSON* bound = row_at(rows_nth(&all, "run", 0), "config/max_overhead_percent");
    CHECK(bound != NULL && bound->valuedouble == 0.25);
}

// ---- Programs that were built against version 0.1.0, whose struct ends with `storage` ----

enum { old_bytes = offsetof(cep_options, max_overhead_percent) };

// The struct of the older program, with guard bytes behind it.
static cep_options* old_options(void) {
    cep_options* options = malloc(sizeof(cep_options));
    CHECK(options != NULL);
    memset(options, 0x5a, sizeof *options);
    CHECK_EQ(cep_options_init(options, old_bytes), CEP_OK);
    options->directory = "out";
    options->rank = 0;
    options->world_size = 1;
    options->local_rank = 0;
    options->backend = CEP_BACKEND_HOST;
    return options;
}

static void check_guard(const cep_options* options) {
    CHECK_EQ(options->struct_size, old_bytes);
    const unsigned char* bytes = (const unsigned char*)options;
    for (size_t i = old_bytes; i < sizeof *options; ++i) CHECK_EQ(bytes[i], 0x5a);
}

static double bound_in_effect(const cep_options* options) {
    close_now(open_with(options));
    const rows all = rows_read(RANK_FILE);
    return row_at(rows_last(&all, "run"), "config/max_overhead_percent")->valuedouble;
}

TEST(a_program_built_against_the_older_struct_has_no_bound) {
    cep_options* options = old_options();
    CHECK(bound_in_effect(options) == 0);
    check_guard(options);
    free(options);
}

TEST(a_program_built_against_the_older_struct_loads_and_clears_its_options) {
    cep_options* options = old_options();
    CHECK_EQ(cep_options_load_json(options, "{\"enable\":true,\"run_id\":\"r\",\"start_step\":7}"), CEP_OK);
    CHECK_EQ(options->start_step, 7);
    CHECK_TEXT(options->run_id, "r");
    check_guard(options);
    setenv("CEP_END_STEP", "70", 1);
    CHECK_EQ(cep_options_load_env(options), CEP_OK);
    CHECK_EQ(options->end_step, 70);
    CHECK_EQ(options->enable, 1);
    check_guard(options);
    CHECK(bound_in_effect(options) == 0);
    cep_options_clear(options);
    CHECK(options->storage == NULL && options->run_id == NULL);
    CHECK_EQ(options->start_step, 0);
    check_guard(options);
    free(options);
}

TEST(the_environment_bounds_a_program_built_against_the_older_struct) {
    setenv("CEP_ENABLE", "1", 1);
    setenv("CEP_MAX_OVERHEAD_PERCENT", "0.25", 1);
    cep_options* options = old_options();
    CHECK_EQ(cep_options_load_env(options), CEP_OK);
    options->record_every_n_steps = 5;
    check_guard(options);
    CHECK(bound_in_effect(options) == 0.25);
    CHECK_EQ(cep_options_load_json(options, "{\"start_step\":1}"), CEP_OK);  // keeps it
    CHECK(bound_in_effect(options) == 0.25);
    CHECK_EQ(cep_options_load_json(options, "{\"max_overhead_percent\":2}"), CEP_OK);
    CHECK(bound_in_effect(options) == 2);
    cep_options_clear(options);
    free(options);
}

TEST(a_struct_too_short_for_its_storage_is_not_loaded) {
    cep_options options;
    CHECK_EQ(cep_options_init(&options, offsetof(cep_options, storage)), CEP_OK);
    CHECK_EQ(cep_options_load_json(&options, "{}"), CEP_EINVAL);
    CHECK_CONTAINS(cep_last_error(), "struct_size");
    CHECK_EQ(cep_options_load_env(&options), CEP_EINVAL);
}
