// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "trainer.h"

typedef struct window {
    int64_t start_step, end_step, stride;
    int64_t steps[22], recorded[22];  // each ends with -1
} window;

TEST(steps_of_the_stride_from_the_first_to_the_last_of_the_window_are_recorded) {
    static const window windows[] = {
        {2, 5, 2, {0, 1, 2, 3, 4, 5, 6, -1}, {2, 4, -1}},
        {0, INT64_MAX, 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 19, 20, 21, -1}, {0, 10, 20, -1}},
        {3, 5, 1, {2, 3, 5, 6, -1}, {3, 5, -1}},
        {4, 4, 1, {3, 4, 5, -1}, {4, -1}},
        {3, INT64_MAX, 4, {3, 6, 7, 10, 11, 13, 15, -1}, {3, 7, 11, 15, -1}},
        {0, INT64_MAX, 10, {0, 1000, 1000, 20, 21, 20, INT64_MAX - 7, -1}, {0, 1000, 1000, 20, 20, INT64_MAX - 7, -1}},
    };
    for (size_t w = 0; w < sizeof windows / sizeof *windows; ++w) {
        const window* one = &windows[w];
        (void)remove(RANK_FILE);
        cep_options options = host_options();
        options.start_step = one->start_step;
        options.end_step = one->end_step;
        options.record_every_n_steps = one->stride;
        cep_profiler* profiler = open_with(&options);
        for (size_t i = 0; one->steps[i] >= 0; ++i) record_step(profiler, one->steps[i], "forward");
        const rows all = rows_after_close(profiler);
        size_t count = 0;
        for (; one->recorded[count] >= 0; ++count)
            CHECK_EQ(row_int(rows_nth(&all, SPAN, count), "step"), one->recorded[count]);
        CHECK_EQ(rows_count(&all, SPAN), count);
    }
}

TEST(nothing_is_recorded_before_the_first_step) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_recording(profiler), 0);
    record_spans(profiler, "forward", 3);
    CHECK_EQ(cep_counter(profiler, "loss", 1.0), CEP_OK);
    CHECK_EQ(cep_mark(profiler, "restart", NULL), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN) + rows_count(&all, "counter") + rows_count(&all, "mark"), 0);
}

TEST(recording_says_whether_the_step_is_recorded) {
    cep_options options = host_options();
    options.start_step = 2;
    options.end_step = 4;
    options.record_every_n_steps = 2;
    cep_profiler* profiler = open_with(&options);
    static const int32_t expected[] = {0, 0, 1, 0, 1, 0, 0};
    for (int step = 0; step < 7; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        CHECK_EQ(cep_recording(profiler), expected[step]);
    }
    close_now(profiler);
    CHECK_EQ(cep_recording(profiler), 0);
}

TEST(a_negative_step_is_refused_and_the_current_step_does_not_change) {
    cep_profiler* profiler = open_at_step(5);
    CHECK_EQ(cep_step(profiler, -1), CEP_EINVAL);
    CHECK_CONTAINS(cep_last_error(), "-1");
    record_spans(profiler, "forward", 1);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_nth(&all, SPAN, 0), "step"), 5);
}

static cep_options rank_of_4(int32_t rank, const int32_t* ranks, uint64_t count) {
    cep_options options = host_options();
    options.rank = rank;
    options.world_size = 4;
    options.ranks = ranks;
    options.ranks_count = count;
    return options;
}

TEST(a_rank_outside_the_list_writes_nothing) {
    static const int32_t ranks[] = {0, 1};
    const cep_options options = rank_of_4(3, ranks, 2);
    cep_profiler* profiler = open_with(&options);
    record_step(profiler, 0, "forward");
    CHECK_EQ(cep_recording(profiler), 0);
    CHECK_EQ(cep_flush(profiler, 1000), CEP_OK);
    close_now(profiler);
    CHECK(!path_exists("out"));
}

TEST(a_rank_in_the_list_is_recorded) {
    static const int32_t ranks[] = {0, 1};
    const cep_options options = rank_of_4(1, ranks, 2);
    cep_profiler* profiler = open_with(&options);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    const rows all = rows_read("out/cuda_events_rank_1.jsonl");
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
}

TEST(a_disabled_profiler_writes_nothing) {
    PROFILER_WITH(open_with, host_options, enable = 0);
    record_step(profiler, 0, "forward");
    close_now(profiler);
    CHECK(!path_exists("out"));
}

TEST(a_flush_step_writes_without_a_wait) {
    PROFILER_WITH(open_with, host_options, flush_every_n_steps = 3);
    record_step(profiler, 1, "forward");
    CHECK_EQ(cep_step(profiler, 3), CEP_OK);
    // The writer writes whenever it runs. The test waits for the row itself, however long that takes.
    size_t spans = 0;
    while (spans == 0) {
        const rows all = rows_read_leniently(RANK_FILE);
        spans = rows_spans_named(&all, "forward");
    }
    CHECK_EQ(spans, 1);
    close_now(profiler);
}
