// SPDX-License-Identifier: Apache-2.0
//
// More spans than the rings hold: every lost span is counted, and every span counted as written is in the file.
#include <pthread.h>

#include "trainer.h"

// With a sanitizer each span takes much longer, and fewer spans are enough to show a race.
enum {
    load_threads = 16,
    spans_per_thread = CHECK_SANITIZED ? 5000 : 100000,
    million = CHECK_SANITIZED ? 50000 : 1000000
};

static void* record_many(void* argument) {
    record_spans(argument, "forward", spans_per_thread);
    return NULL;
}

static void run_threads(void* (*body)(void*), void* argument) {
    pthread_t threads[load_threads];
    for (int i = 0; i < load_threads; ++i) CHECK_EQ(pthread_create(&threads[i], NULL, body, argument), 0);
    for (int i = 0; i < load_threads; ++i) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static cep_stats fill_rings_of(int64_t capacity) {
    PROFILER_WITH(open_with, host_options, ring_capacity = capacity);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    run_threads(record_many, profiler);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.recorded, (uint64_t)load_threads * spans_per_thread);
    CHECK_EQ(count_spans_in_file(RANK_FILE), stats.written);
    return stats;
}

TEST(every_span_of_16_threads_is_written_or_counted_as_dropped) {
    const cep_stats stats = fill_rings_of(4096);
    CHECK_EQ(stats.written + stats.dropped_ring + stats.dropped_slots, stats.recorded);
    CHECK(stats.written > 0);
}

TEST_THAT(a_full_ring_of_the_smallest_size_drops_and_counts, CHECK(fill_rings_of(16).dropped_ring > 0))

TEST(a_span_left_open_while_a_million_others_pass_is_written) {
    OPEN_AT_STEP(0, "training_step");
    const cep_span span = cep_begin(region, CEP_HOST);
    record_spans(profiler, "forward", million);
    cep_end(region, span, CEP_HOST);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const cep_span last = cep_begin(region, CEP_HOST);
    CHECK(last != CEP_SPAN_NONE);
    cep_end(region, last, CEP_HOST);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.recorded, million + 2);
    CHECK_EQ(stats.open_spans, 0);
    CHECK_EQ(stats.dropped_slots, 0);
    CHECK_EQ(count_spans_in_file(RANK_FILE), stats.written);
}

TEST(spans_nested_beyond_the_slots_are_counted) {
    enum { nested = 5000 };
    static cep_span spans[nested];
    cep_profiler* profiler = open_at_step(0);
    cep_region* region = cep_region_get(profiler, "layer", CEP_KIND_COMPUTE);

    for (int i = 0; i < nested; ++i) spans[i] = cep_begin(region, CEP_HOST);
    for (int i = nested - 1; i >= 0; --i) cep_end(region, spans[i], CEP_HOST);
    record_spans(profiler, "forward", 1);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.recorded, nested + 1);
    CHECK_EQ(stats.open_spans, 0);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), stats.written);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
}

enum { steps_per_thread = CHECK_SANITIZED ? 200 : 2000 };

static void* record_with_counters(void* argument) {
    cep_region* region = cep_region_get(argument, "forward", CEP_KIND_AUTO);
    const cep_attrs attrs = {.struct_size = sizeof attrs, .coll = -1, .meta = "{\"a\":[1,2,3]}"};
    for (int i = 0; i < steps_per_thread; ++i) {
        (void)cep_step(argument, i);
        const cep_span outer = cep_begin(region, CEP_HOST);
        const cep_span inner = cep_switch(cep_begin_with(region, CEP_HOST, &attrs), region, CEP_HOST);
        (void)cep_counter(argument, "loss", i);
        (void)cep_mark(argument, "mark", NULL);
        (void)cep_record(region, 0, 1, &attrs);
        cep_end(region, inner, CEP_HOST);
        cep_end(region, outer, CEP_HOST);
        if (i % 100 == 0) (void)cep_flush(argument, close_timeout_ms);
        cep_stats stats = {.struct_size = sizeof stats};
        (void)cep_get_stats(argument, &stats);
    }
    return NULL;
}

TEST(every_call_may_be_made_from_many_threads_at_once) {
    cep_profiler* profiler = open_here();
    run_threads(record_with_counters, profiler);
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.recorded, (uint64_t)load_threads * steps_per_thread * 6);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN) + rows_count(&all, "counter") + rows_count(&all, "mark"), stats.written);
}

static _Atomic uint64_t begun;

static void* record_until_closed(void* argument) {
    cep_region* region = cep_region_get(argument, "forward", CEP_KIND_AUTO);
    for (;;) {
        const cep_span span = cep_begin(region, CEP_HOST);
        if (span == CEP_SPAN_NONE && !cep_recording(argument)) return NULL;
        ++begun;
        cep_end(region, span, CEP_HOST);
    }
}

static void* close_after_some(void* argument) {
    while (begun < 10000) continue;
    close_now(argument);
    return NULL;
}

TEST(a_close_while_other_threads_record_keeps_the_file_whole) {
    cep_profiler* profiler = open_at_step(0);
    pthread_t closer;
    CHECK_EQ(pthread_create(&closer, NULL, close_after_some, profiler), 0);
    run_threads(record_until_closed, profiler);
    CHECK_EQ(pthread_join(closer, NULL), 0);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(count_spans_in_file(RANK_FILE), stats.written);
}
