// SPDX-License-Identifier: Apache-2.0
//
// More threads than the profiler has room for, one after the other or at once. Refused threads are counted and cost
// neither time nor memory.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "faulty_io.h"
#include "trainer.h"

enum { budget_kib = 16 * 1024, thread_limit = 1024, most_threads = 1100 };

static cep_profiler* profiler;
static cep_region* region;

static void open_shared(void) {
    const cep_options options = host_options();
    profiler = open_with(&options);
    region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
}

static void check_counts_after_close(uint64_t recorded) {
    const cep_stats stats = close_now(profiler);
    CHECK_EQ(stats.recorded, recorded);
    CHECK_EQ(stats.open_spans, 0);
    CHECK_EQ(count_spans_in_file(RANK_FILE), stats.written);
}

// A line of this process's status, in KiB.
static long status_kib(const char* key) {
    char line[256];
    long value = -1;
    FILE* status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, key, strlen(key)) == 0) value = strtol(line + strlen(key) + 1, NULL, 10);
    fclose(status);
    CHECK(value >= 0);
    return value;
}

static void check_growth(long kib) {
    printf("# %ld KiB more, of %d allowed\n", kib, budget_kib);
    fflush(stdout);
    CHECK(kib <= budget_kib);
}

static void* record_once(void* unused) {
    cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    return unused;
}

static pthread_attr_t small_stack;

static void start(pthread_t* thread, void* (*body)(void*), void* argument) {
    if (!CHECK_SANITIZED) CHECK_EQ(pthread_attr_setstacksize(&small_stack, 64 * 1024), 0);
    CHECK_EQ(pthread_create(thread, &small_stack, body, argument), 0);
}

TEST(five_thousand_threads_that_come_and_go_lose_nothing) {
    enum { threads = CHECK_SANITIZED ? 500 : 5000 };
    CHECK_EQ(pthread_attr_init(&small_stack), 0);
    open_shared();
    for (int i = 0; i < threads; ++i) {
        pthread_t thread;
        start(&thread, record_once, NULL);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    check_counts_after_close(threads);
    CHECK_EQ(stats_of(profiler).written, threads);
    CHECK_EQ(stats_of(profiler).dropped_slots, 0);
}

/* ---- All at once ---------------------------------------------------------------------------------------- */

static pthread_barrier_t started, recorded, finished;
static atomic_int refused;
static atomic_ulong allocated_when_refused;

static void* record_when_all_are_there(void* unused) {
    pthread_barrier_wait(&started);
    const cep_span span = cep_begin(region, CEP_HOST);
    cep_end(region, span, CEP_HOST);
    pthread_barrier_wait(&recorded);
    if (span == CEP_SPAN_NONE) {
        ++refused;
        const unsigned long before = allocations_of_this_thread();
        for (int i = 0; i < 1000; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        allocated_when_refused += allocations_of_this_thread() - before;
    }
    pthread_barrier_wait(&finished);
    return unused;
}

static pthread_t at_once[most_threads];

static void start_at_once(unsigned count, void* (*body)(void*)) {
    CHECK_EQ(pthread_attr_init(&small_stack), 0);
    CHECK_EQ(pthread_barrier_init(&started, NULL, count + 1), 0);
    CHECK_EQ(pthread_barrier_init(&recorded, NULL, count + 1), 0);
    CHECK_EQ(pthread_barrier_init(&finished, NULL, count + 1), 0);
    for (unsigned i = 0; i < count; ++i) start(&at_once[i], body, NULL);
}

static void join(unsigned count) {
    for (unsigned i = 0; i < count; ++i) CHECK_EQ(pthread_join(at_once[i], NULL), 0);
}

TEST(threads_beyond_the_limit_are_refused_counted_and_cheap) {
    if (CHECK_SANITIZED) check_skip("more threads than the sanitizer has room for");
    open_shared();
    start_at_once(most_threads, record_when_all_are_there);
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&finished);
    join(most_threads);
    CHECK_EQ(refused, most_threads - thread_limit);
    CHECK_EQ(allocated_when_refused, 0);
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(stats.dropped_slots, 1001 * (most_threads - thread_limit));
    CHECK_EQ(stats.threads, thread_limit);
    check_counts_after_close(most_threads + 1000 * (most_threads - thread_limit));
}

static void* record_and_wait(void* unused) {
    pthread_barrier_wait(&started);
    cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&finished);
    return unused;
}

TEST(a_thousand_threads_with_a_span_each_stay_within_the_budget) {
    if (CHECK_SANITIZED) check_skip("the sanitizer has memory of its own");
    open_shared();
    start_at_once(thread_limit, record_and_wait);
    const long before_kib = status_kib("VmRSS:");
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&recorded);
    const long after_kib = status_kib("VmHWM:");
    pthread_barrier_wait(&finished);
    join(thread_limit);
    check_growth(after_kib - before_kib);
    check_counts_after_close(thread_limit);
    CHECK_EQ(stats_of(profiler).written, thread_limit);
}

/* ---- Rings -------------------------------------------------------------------------------------------------- */

// Threads past the 16th get rings of 64, so that a thousand of them stay within the budget.
enum { large_rings = 16, small_ring_spans = 64, ring_threads = 20, spans_of_each = 100 };

static void* fill_a_ring(void* unused) {
    pthread_barrier_wait(&started);
    for (int i = 0; i < spans_of_each; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&finished);
    return unused;
}

TEST(of_threads_alive_at_once_those_past_the_sixteenth_get_small_rings) {
    enum { small_rings = ring_threads - large_rings, lost = small_rings * (spans_of_each - small_ring_spans) };
    open_shared();
    start_at_once(ring_threads, fill_a_ring);
    // This one leaves its ring to another thread.
    pthread_t first;
    start(&first, record_once, NULL);
    CHECK_EQ(pthread_join(first, NULL), 0);
    io_stall_writes();
    CHECK_EQ(cep_flush(profiler, 0), CEP_OK);
    io_wait_for_stalled_write();  // the writer takes nothing from the rings
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&recorded);
    const cep_stats stats = stats_of(profiler);
    io_release_writes();
    pthread_barrier_wait(&finished);
    join(ring_threads);
    CHECK_EQ(stats.dropped_ring, lost);
    CHECK_EQ(stats.pending, 1 + ring_threads * spans_of_each - lost);
    check_counts_after_close(1 + ring_threads * spans_of_each);
    CHECK_EQ(stats_of(profiler).dropped_ring, lost);
}

/* ---- Metadata of open spans ------------------------------------------------------------------------------- */

enum { keepers = 16, spans_each = 1000, meta_bytes = 16 * 1024 };

static char meta[meta_bytes + 1];

static void make_meta(void) {
    memset(meta, 'x', meta_bytes);
    memcpy(meta, "{\"a\":\"", 6);
    memcpy(meta + meta_bytes - 2, "\"}", 3);
}

static void* keep_spans_with_metadata_open(void* unused) {
    cep_attrs attrs = CEP_ATTRS_INIT;
    attrs.meta = meta;
    cep_span spans[spans_each];
    pthread_barrier_wait(&started);
    for (int i = 0; i < spans_each; ++i) spans[i] = cep_begin_with(region, CEP_HOST, &attrs);
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&recorded);  // the counts have been read
    for (int i = spans_each - 1; i >= 0; --i) cep_end(region, spans[i], CEP_HOST);
    pthread_barrier_wait(&finished);
    return unused;
}

TEST(metadata_of_open_spans_stays_within_the_budget_and_its_loss_is_counted) {
    if (CHECK_SANITIZED) check_skip("the sanitizer has memory of its own");
    make_meta();
    open_shared();
    start_at_once(keepers, keep_spans_with_metadata_open);
    const long before_kib = status_kib("VmRSS:");
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&recorded);
    const cep_stats open_now = stats_of(profiler);
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&finished);
    join(keepers);
    const long after_kib = status_kib("VmHWM:");
    check_growth(after_kib - before_kib);
    CHECK(open_now.dropped_meta > 0);
    CHECK_EQ(open_now.open_spans + open_now.dropped_slots, keepers * spans_each);
    check_counts_after_close(keepers * spans_each);
}
