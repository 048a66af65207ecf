// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trainer.h"

static int64_t unix_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

TEST(a_span_row_has_the_documented_keys_in_their_order) {
    static const char* const keys[] = {"name",    "step", "rank",  "duration_ms", "start_ns",
                                       "host_ms", "kind", "clock", "seq",         "depth"};
    cep_profiler* profiler = open_here();
    record_step(profiler, 7, "forward");
    const rows all = rows_after_close(profiler);
    const char* text = rows_nth(&all, SPAN, 0)->text;
    const char* previous = text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%s\":", keys[i]);
        const char* at = strstr(text, quoted);
        if (at == NULL || at < previous)
            check_fail(__FILE__, __LINE__, "%s is missing or misplaced in %s", keys[i], text);
        previous = at;
    }
}

TEST(start_and_duration_lie_within_the_time_of_the_calls) {
    OPEN_AT_STEP(0, "forward");
    const int64_t before_ns = unix_ns();
    const cep_span span = cep_begin(region, CEP_HOST);
    const int64_t begun_ns = unix_ns();
    while (unix_ns() - begun_ns < 3000000) continue;
    cep_end(region, span, CEP_HOST);
    const int64_t after_ns = unix_ns();
    const rows all = rows_after_close(profiler);
    const row* written = rows_nth(&all, SPAN, 0);
    const int64_t slack_ns = 1000000;  // UNIX time and the monotonic clock are different clocks.
    CHECK(row_int(written, "start_ns") >= before_ns - slack_ns && row_int(written, "start_ns") <= after_ns + slack_ns);
    CHECK(row_number(written, "duration_ms") >= 1.0);
    CHECK(row_number(written, "duration_ms") <= (double)(after_ns - before_ns + slack_ns) / 1e6);
}

TEST(kinds_are_inferred_from_words_or_taken_from_the_caller) {
    cep_profiler* profiler = open_here();
    CHECK(cep_region_get(profiler, "my_copy", CEP_KIND_DATA) != NULL);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    static const char* const names[] = {"all_reduce", "comm_mm", "hmm", "my_copy", "training_step", "h2d"};
    static const char* const kinds[] = {"comm", NULL, "other", "data", "step", "data"};
    for (int i = 0; i < 6; ++i) record_spans(profiler, names[i], 1);
    const rows all = rows_after_close(profiler);
    for (int i = 0; i < 6; ++i)
        if (kinds[i] != NULL) CHECK_TEXT(row_text(rows_span(&all, names[i], 0), "kind"), kinds[i]);
}

TEST(every_explicit_kind_is_written_by_its_name) {
    static const char* const names[] = {"", "step", "compute", "comm", "data", "memory", "host", "other"};
    cep_profiler* profiler = open_at_step(0);
    for (int kind = CEP_KIND_STEP; kind <= CEP_KIND_OTHER; ++kind) {
        char name[32];
        snprintf(name, sizeof name, "region %d", kind);
        cep_region* region = cep_region_get(profiler, name, kind);
        CHECK(region != NULL);
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    }
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < 7; ++i) CHECK_TEXT(row_text(rows_nth(&all, SPAN, i), "kind"), names[i + 1]);
}

TEST(seq_counts_the_spans_of_a_name_within_a_step) {
    cep_profiler* profiler = open_here();
    for (int step = 0; step < 2; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        record_spans(profiler, "forward", 3);
        record_spans(profiler, "backward", 2);
    }
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < 6; ++i) CHECK_EQ(row_int(rows_span(&all, "forward", i), "seq"), i % 3);
    for (size_t i = 0; i < 4; ++i) CHECK_EQ(row_int(rows_span(&all, "backward", i), "seq"), i % 2);
}

TEST(an_asynchronous_span_has_a_depth_and_adds_to_no_other) {
    cep_profiler* profiler = open_at_step(0);
    cep_region* step = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    cep_region* reduce = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO);
    cep_region* forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    cep_attrs attrs = CEP_ATTRS_INIT;
    attrs.flags = CEP_ATTRS_ASYNC;
    const cep_span outer = cep_begin(step, CEP_HOST);
    const cep_span first = cep_begin_with(reduce, CEP_HOST, &attrs);
    const cep_span second = cep_begin_with(reduce, CEP_HOST, &attrs);
    const cep_span inner = cep_begin(forward, CEP_HOST);
    cep_end(reduce, CEP_SPAN_INNERMOST, CEP_HOST);
    cep_end(forward, inner, CEP_HOST);
    cep_end(step, outer, CEP_HOST);
    cep_end(reduce, first, CEP_HOST);
    cep_end(reduce, second, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 4);
    CHECK_EQ(row_int(rows_span(&all, "training_step", 0), "depth"), 0);
    CHECK_EQ(row_int(rows_span(&all, "all_reduce", 0), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "all_reduce", 1), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "forward", 0), "depth"), 1);
}

TEST(depth_counts_the_spans_around_a_span) {
    cep_profiler* profiler = open_here();
    cep_region* regions[3];
    cep_span spans[3];
    static const char* const names[] = {"training_step", "forward", "attention"};
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    for (int i = 0; i < 3; ++i) {
        regions[i] = cep_region_get(profiler, names[i], CEP_KIND_AUTO);
        spans[i] = cep_begin(regions[i], CEP_HOST);
    }
    for (int i = 2; i >= 0; --i) cep_end(regions[i], spans[i], CEP_HOST);
    record_spans(profiler, "optimizer", 1);
    const rows all = rows_after_close(profiler);
    for (int i = 0; i < 3; ++i) CHECK_EQ(row_int(rows_span(&all, names[i], 0), "depth"), i);
    CHECK_EQ(row_int(rows_span(&all, "optimizer", 0), "depth"), 0);
}

TEST(span_innermost_ends_the_latest_span_of_that_region) {
    cep_profiler* profiler = open_at_step(0);
    cep_region* layer = cep_region_get(profiler, "layer", CEP_KIND_COMPUTE);
    cep_region* other = cep_region_get(profiler, "other", CEP_KIND_COMPUTE);
    cep_begin(layer, CEP_HOST);
    cep_begin(layer, CEP_HOST);
    cep_begin(other, CEP_HOST);
    cep_end(layer, CEP_SPAN_INNERMOST, CEP_HOST);
    CHECK_EQ(stats_of(profiler).open_spans, 2);
    cep_end(layer, CEP_SPAN_INNERMOST, CEP_HOST);
    cep_end(layer, CEP_SPAN_INNERMOST, CEP_HOST);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    cep_end(other, CEP_SPAN_INNERMOST, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "layer"), 2);
    CHECK_EQ(row_int(rows_span(&all, "layer", 0), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "layer", 1), "depth"), 0);
    CHECK_EQ(rows_count(&all, "open"), 0);
}

typedef struct handover {
    cep_region* region;
    cep_span span;
    cep_profiler* profiler;
} handover;

static void* end_it(void* argument) {
    const handover* given = argument;
    cep_end(given->region, given->span, CEP_HOST);
    return NULL;
}

static void* begin_and_leave_open(void* argument) {
    handover* given = argument;
    given->span = cep_begin(given->region, CEP_HOST);
    return NULL;
}

static void* record_one_and_end_innermost(void* argument) {
    const handover* given = argument;
    record_spans(given->profiler, "later", 1);
    cep_end(given->region, CEP_SPAN_INNERMOST, CEP_HOST);
    return NULL;
}

TEST(depth_leaves_out_spans_that_another_thread_has_ended) {
    cep_profiler* profiler = open_here();
    cep_region* inner = cep_region_get(profiler, "inner", CEP_KIND_AUTO);
    handover given = {cep_region_get(profiler, "outer", CEP_KIND_AUTO), 0, profiler};
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    given.span = cep_begin(given.region, CEP_HOST);
    const cep_span span = cep_begin(inner, CEP_HOST);
    check_on_a_thread(end_it, &given);
    record_spans(profiler, "later", 1);
    cep_end(inner, span, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "inner", 0), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "later", 0), "depth"), 1);
}

TEST(a_thread_begins_without_the_spans_that_an_ended_thread_left_open) {
    cep_profiler* profiler = open_here();
    handover given = {cep_region_get(profiler, "left_open", CEP_KIND_AUTO), 0, profiler};
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    check_on_a_thread(begin_and_leave_open, &given);
    check_on_a_thread(record_one_and_end_innermost, &given);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    cep_end(given.region, given.span, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "later", 0), "depth"), 0);
    CHECK_EQ(rows_spans_named(&all, "left_open"), 1);
    CHECK_EQ(rows_count(&all, "open"), 0);
}

TEST(a_span_ended_on_another_thread_is_no_longer_innermost) {
    cep_profiler* profiler = open_here();
    handover given = {cep_region_get(profiler, "forward", CEP_KIND_AUTO), 0, profiler};
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    cep_begin(given.region, CEP_HOST);
    given.span = cep_begin(given.region, CEP_HOST);
    check_on_a_thread(end_it, &given);
    cep_end(given.region, CEP_SPAN_INNERMOST, CEP_HOST);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    record_spans(profiler, "optimizer", 1);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 2);
    CHECK_EQ(row_int(rows_span(&all, "optimizer", 0), "depth"), 0);
}

TEST(begin_returns_span_none_on_an_unrecorded_step) {
    cep_profiler* profiler = open_every(10);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK(cep_begin(region, CEP_HOST) == CEP_SPAN_NONE);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    CHECK(cep_begin(region, CEP_HOST) == CEP_SPAN_NONE);
    CHECK(cep_begin_with(region, CEP_HOST, NULL) == CEP_SPAN_NONE);
    CHECK(cep_switch(CEP_SPAN_NONE, region, CEP_HOST) == CEP_SPAN_NONE);
    cep_end(region, CEP_SPAN_NONE, CEP_HOST);
    CHECK_EQ(cep_record(region, 0, 1000, NULL), CEP_OK);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 0);
}

TEST(begin_never_returns_0_on_a_recorded_step) {
    OPEN_AT_STEP(0, "forward");
    for (int i = 0; i < 1000; ++i) {
        const cep_span span = cep_begin(region, CEP_HOST);
        CHECK(span != 0 && span != CEP_SPAN_NONE);
        cep_end(region, span, CEP_HOST);
    }
    close_now(profiler);
}

TEST(a_span_ended_twice_is_written_once) {
    OPEN_AT_STEP(0, "forward");
    const cep_span first = cep_begin(region, CEP_HOST);
    cep_end(region, first, CEP_HOST);
    cep_end(region, first, CEP_HOST);
    const cep_span second = cep_begin(region, CEP_HOST);
    cep_end(region, first, CEP_HOST);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    cep_end(region, second, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 2);
}

TEST(a_span_that_never_existed_is_ignored) {
    OPEN_AT_STEP(0, "forward");
    static const cep_span made_up[] = {1, 2, 12345, UINT64_MAX - 1, UINT64_C(1) << 63, UINT64_C(0xdeadbeefcafe)};
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; ++i) cep_end(region, made_up[i], CEP_HOST);
    record_spans(profiler, "forward", 1);
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; ++i) cep_end(region, made_up[i], CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 1);
}

TEST(a_span_that_ends_on_an_unrecorded_step_has_the_step_of_its_begin) {
    cep_profiler* profiler = open_every(10);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 10), CEP_OK);
    const cep_span span = cep_begin(region, CEP_HOST);
    CHECK_EQ(cep_step(profiler, 11), CEP_OK);
    cep_end(region, span, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "forward", 0), "step"), 10);
}

TEST(seq_belongs_to_the_step_of_the_begin) {
    OPEN_AT_STEP(1, "forward");
    const cep_span span = cep_begin(region, CEP_HOST);
    CHECK_EQ(cep_step(profiler, 2), CEP_OK);
    record_spans(profiler, "forward", 1);
    cep_end(region, span, CEP_HOST);
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < 2; ++i) CHECK_EQ(row_int(rows_span(&all, "forward", i), "seq"), 0);
}

static void* record_a_hundred(void* argument) {
    record_spans(argument, "forward", 100);
    return NULL;
}

TEST(seq_counts_across_threads) {
    enum { threads = 4 };
    pthread_t started[threads];
    bool seen[threads * 100] = {false};
    cep_profiler* profiler = open_at_step(0);
    for (int i = 0; i < threads; ++i) CHECK_EQ(pthread_create(&started[i], NULL, record_a_hundred, profiler), 0);
    for (int i = 0; i < threads; ++i) CHECK_EQ(pthread_join(started[i], NULL), 0);
    const rows all = rows_after_close(profiler);
    for (size_t i = 0; i < threads * 100; ++i) {
        const int64_t seq = row_int(rows_span(&all, "forward", i), "seq");
        CHECK(seq >= 0 && seq < threads * 100 && !seen[seq]);
        seen[seq] = true;
    }
}

TEST(switched_phases_are_contiguous) {
    enum { phases = 50 };
    cep_profiler* profiler = open_here();
    cep_region* regions[2] = {cep_region_get(profiler, "forward", CEP_KIND_AUTO),
                              cep_region_get(profiler, "backward", CEP_KIND_AUTO)};
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    cep_span span = CEP_SPAN_NONE;
    for (int i = 0; i < phases; ++i) {
        span = cep_switch(span, regions[i % 2], CEP_HOST);
        CHECK(span != CEP_SPAN_NONE && span != 0);
    }
    CHECK(cep_switch(span, NULL, CEP_HOST) == CEP_SPAN_NONE);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    cep_end(regions[(phases - 1) % 2], span, CEP_HOST);  // it has ended
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), phases);
    for (size_t i = 0; i + 1 < phases; ++i) {
        const row* this = rows_nth(&all, SPAN, i), *next = rows_nth(&all, SPAN, i + 1);
        const int64_t end_ns = row_int(this, "start_ns") + llround(row_number(this, "duration_ms") * 1e6);
        CHECK(llabs(end_ns - row_int(next, "start_ns")) <= 1);
        CHECK_TEXT(row_text(this, "name"), i % 2 == 0 ? "forward" : "backward");
        CHECK_EQ(row_int(this, "depth"), 0);
    }
}

TEST(switch_from_innermost_ends_the_latest_span_of_any_region) {
    cep_profiler* profiler = open_at_step(0);
    cep_region* step = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    cep_region* forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    cep_region* backward = cep_region_get(profiler, "backward", CEP_KIND_AUTO);
    const cep_span whole = cep_begin(step, CEP_HOST);
    cep_begin(forward, CEP_HOST);
    const cep_span second = cep_switch(CEP_SPAN_INNERMOST, backward, CEP_HOST);
    CHECK_EQ(stats_of(profiler).open_spans, 2);
    cep_end(backward, second, CEP_HOST);
    cep_end(step, whole, CEP_HOST);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(row_int(rows_span(&all, "forward", 0), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "backward", 0), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "training_step", 0), "depth"), 0);
}

TEST(switch_ends_its_span_when_the_new_step_is_not_recorded) {
    cep_profiler* profiler = open_every(10);
    cep_region* region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    const cep_span span = cep_begin(region, CEP_HOST);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    CHECK(cep_switch(span, region, CEP_HOST) == CEP_SPAN_NONE);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 1);
}

TEST(record_adds_a_span_timed_elsewhere) {
    OPEN_AT_STEP(4, "forward");
    CHECK_EQ(cep_record(region, 1763700000123456789, 12345678, NULL), CEP_OK);
    const rows all = rows_after_close(profiler);
    const row* span = rows_span(&all, "forward", 0);
    CHECK_EQ(row_int(span, "start_ns"), 1763700000123456789);
    CHECK_EQ(llround(row_number(span, "duration_ms") * 1e6), 12345678);
    CHECK_TEXT(row_text(span, "clock"), "external");
    CHECK_EQ(row_int(span, "step"), 4);
}

TEST(record_without_a_start_ends_now) {
    const int64_t duration_ns = 5000000000;
    OPEN_AT_STEP(0, "forward");
    const int64_t before_ns = unix_ns();
    CHECK_EQ(cep_record(region, 0, duration_ns, NULL), CEP_OK);
    const int64_t after_ns = unix_ns();
    const rows all = rows_after_close(profiler);
    const int64_t end_ns = row_int(rows_span(&all, "forward", 0), "start_ns") + duration_ns;
    CHECK(end_ns >= before_ns - 1000000 && end_ns <= after_ns + 1000000);
}

TEST(record_refuses_a_negative_time) {
    OPEN_AT_STEP(0, "forward");
    CHECK_EQ(cep_record(region, 0, -5, NULL), CEP_EINVAL);
    CHECK_CONTAINS(cep_last_error(), "duration_ns");
    CHECK_EQ(cep_record(region, -1, 5, NULL), CEP_EINVAL);
    CHECK_CONTAINS(cep_last_error(), "start_ns");
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, SPAN), 0);
}

TEST(a_stream_without_a_context_is_timed_on_the_host_clock) {
    OPEN_AT_STEP(0, "forward");
    cep_end(region, cep_begin(region, NULL), NULL);
    const rows all = rows_after_close(profiler);
    CHECK_TEXT(row_text(rows_span(&all, "forward", 0), "clock"), "host");
}
