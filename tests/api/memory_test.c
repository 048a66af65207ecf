// SPDX-License-Identifier: Apache-2.0
//
// The profiler's memory is bounded, whatever the trainer and the disk do.
#include <pthread.h>
#include <sys/resource.h>

#include "trainer.h"

enum { budget_kib = 16 * 1024 };

static long peak_kib(void) {
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void need_exact_memory(void) {
    if (CHECK_SANITIZED) check_skip("the sanitizer has memory of its own");
}

TEST(a_million_spans_stay_within_the_budget_of_a_rank) {
    need_exact_memory();
    const long before_kib = peak_kib();
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 1000000);
    close_now(profiler);
    CHECK(peak_kib() - before_kib <= budget_kib);
}

TEST(a_disk_that_stays_full_does_not_fill_memory) {
    need_exact_memory();
    const long before_kib = peak_kib();
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const struct rlimit limit = {(rlim_t)file_size(RANK_FILE), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 100; ++i) {
        record_spans(profiler, "forward", 4000);
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    }
    CHECK(peak_kib() - before_kib <= budget_kib);
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    (void)cep_close(profiler, close_timeout_ms);
    const cep_stats stats = stats_of(profiler);
    check_nothing_unaccounted(&stats);
    CHECK_EQ(stats.recorded, 400010);
    CHECK(stats.dropped_io > 0);
}

static void* record_some(void* argument) {
    record_spans(argument, "forward", 100);
    return NULL;
}

TEST(threads_that_come_and_go_do_not_accumulate_memory) {
    need_exact_memory();
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    const long before_kib = peak_kib();
    for (int i = 0; i < 3000; ++i) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, record_some, profiler), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    CHECK(peak_kib() - before_kib <= budget_kib);
    close_now(profiler);
}
