// SPDX-License-Identifier: Apache-2.0
//
// The profiler's memory is bounded, whatever the trainer and the disk do.
#include <sys/resource.h>

#include "allocations.h"
#include "trainer.h"

enum { budget_bytes = 8 << 20 };

// Allocated bytes and not resident pages: what of its pages the system and the allocator keep differs from run to run.
static void watch_memory(void) {
    if (!allocations_can_be_counted()) check_skip("the sanitizer has memory of its own");
    allocations_watch_bytes();
}

static void check_within_budget(void) {
    CHECK(allocations_most_bytes() > 0);
    CHECK(allocations_most_bytes() <= budget_bytes);
}

TEST(a_million_spans_stay_within_the_budget_of_a_rank) {
    watch_memory();
    cep_profiler* profiler = open_at_step(0);
    record_spans(profiler, "forward", 1000000);
    close_now(profiler);
    check_within_budget();
}

TEST(a_disk_that_stays_full_does_not_fill_memory) {
    watch_memory();
    cep_profiler* profiler = open_at_step(0);
    record_spans(profiler, "forward", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    const struct rlimit limit = {(rlim_t)file_size(RANK_FILE), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 100; ++i) {
        record_spans(profiler, "forward", 4000);
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    }
    check_within_budget();
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    (void)cep_close(profiler, close_timeout_ms);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.recorded, 400010);
    CHECK(stats.dropped_io > 0);
}

static void* record_some(void* argument) {
    record_spans(argument, "forward", 100);
    return NULL;
}

TEST(threads_that_come_and_go_do_not_accumulate_memory) {
    cep_profiler* profiler = open_at_step(0);
    watch_memory();
    for (int i = 0; i < 3000; ++i) {
        check_on_a_thread(record_some, profiler);
    }
    check_within_budget();
    close_now(profiler);
}
