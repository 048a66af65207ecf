// SPDX-License-Identifier: Apache-2.0
//
// Memory runs out at each allocation in turn: no crash, every span is counted, and recording continues.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "allocations.h"
#include "every_call.h"

enum { places = 600, places_at_close = 100, lasting_places = 150 };

static long place;
static bool lasting;

static void run_out_of_memory(void) {
    if (lasting)
        allocations_fail_from(place);
    else
        allocations_fail_nth(place);
}

static void* record_on_a_thread(void* profiler) {
    cep_region* region = cep_region_get(profiler, "thread", CEP_KIND_AUTO);
    for (int i = 0; i < 20; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    return NULL;
}

// Regions and names that cannot be made are NULL or an error, which a trainer may ignore.
static void train_in_any_way(cep_profiler* profiler) {
    for (int step = 0; step < 5; ++step) {
        char name[32];
        snprintf(name, sizeof name, "phase %d", step);
        call_hot_functions(profiler, cep_region_get(profiler, name, CEP_KIND_AUTO), step);
        (void)cep_counter(profiler, name, step);
        (void)cep_set_meta(profiler, "{\"tp\":2,\"note\":\"some text that is longer than a short string holds\"}");
        (void)cep_flush(profiler, lasting ? 20 : close_timeout_ms);
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, record_on_a_thread, profiler) == 0) pthread_join(thread, NULL);
    (void)cep_flush(profiler, lasting ? 20 : close_timeout_ms);
}

static void check_file(const cep_stats* stats) {
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN) + rows_count(&all, "counter") + rows_count(&all, "mark"), stats->written);
    CHECK_EQ(rows_spans_named(&all, "after"), 10);
}

static void train_while_memory_runs_out(void) {
    alarm(20);
    const cep_options options = host_options();
    cep_profiler* profiler = (cep_profiler*)(intptr_t)1;
    run_out_of_memory();
    const int32_t code = cep_open(&options, &profiler);
    if (code != CEP_OK) {
        CHECK(profiler == NULL);
        allocations_work();
        profiler = open_here();
    }
    train_in_any_way(profiler);
    allocations_work();
    CHECK_EQ(cep_step(profiler, 10), CEP_OK);
    record_spans(profiler, "after", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    (void)accounted_stats_of(profiler);
    const cep_stats last = close_now(profiler);
    CHECK_EQ(last.pending, 0);
    check_file(&last);
}

static void close_while_memory_runs_out(void) {
    cep_profiler* profiler = open_here();
    train_in_any_way(profiler);
    record_spans(profiler, "after", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    call_hot_functions(profiler, cep_region_get(profiler, "phase 0", CEP_KIND_AUTO), 20);
    run_out_of_memory();
    (void)cep_close(profiler, lasting ? 1000 : close_timeout_ms);
    allocations_work();
    const cep_stats last = accounted_stats_of(profiler);
    CHECK_EQ(last.pending, 0);
    check_file(&last);
}

// Reports which allocations fail the test. A crash at one does not hide the next.
static void check_places(check_body body, int count, bool at_all_later_places) {
    if (!allocations_can_be_counted()) check_skip("the allocator is the sanitizer's");
    lasting = at_all_later_places;
    int failed = 0;
    for (place = 1; place <= count; ++place) {
        const int status = check_in_child(body);
        if (status != 0 && ++failed <= 5)
            fprintf(stderr, "the child of place %ld ended with status %x\n", place, (unsigned)status);
        (void)unlink(RANK_FILE);
    }
    CHECK_EQ(failed, 0);
}

TEST_THAT(one_allocation_that_fails_anywhere_is_survived, check_places(train_while_memory_runs_out, places, false))
TEST_THAT(memory_that_has_run_out_for_a_while_is_survived,
          check_places(train_while_memory_runs_out, lasting_places, true))
TEST_THAT(one_allocation_that_fails_during_close_is_survived,
          check_places(close_while_memory_runs_out, places_at_close, false))
TEST_THAT(memory_that_has_run_out_at_close_is_survived, check_places(close_while_memory_runs_out, 20, true))
