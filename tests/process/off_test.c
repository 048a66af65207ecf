// SPDX-License-Identifier: Apache-2.0
//
// A profiler that is off (disabled, unlisted, closed, inherited by fork) uses no pthread key, no memory and no thread.
#include <pthread.h>

#include "allocations.h"
#include "every_call.h"

// A key that was never made reads as key 0.
static pthread_key_t first_key;
static const char ours[] = "the value of this program";

static void own_the_first_key(void) {
    CHECK_EQ(pthread_key_create(&first_key, NULL), 0);
    if (first_key != 0) check_skip("key 0 is somebody else's");
    CHECK_EQ(pthread_setspecific(first_key, ours), 0);
}

static cep_profiler* profiler;
static cep_region* region;

static void open_off(cep_options options) {
    profiler = open_with(&options);
    region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK(region != NULL);
}

static void open_disabled(void) {
    cep_options options = host_options();
    options.enable = 0;
    open_off(options);
}

static void open_unlisted(void) {
    static const int32_t others[] = {1};
    cep_options options = host_options();
    options.ranks = others;
    options.ranks_count = 1;
    open_off(options);
}

static void open_and_close(void) {
    open_off(host_options());
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 1);
    close_now(profiler);
}

static void call_everything(void) {
    call_hot_functions(profiler, region, 0);
    cep_end(region, CEP_SPAN_INNERMOST, CEP_HOST);
    (void)cep_switch(CEP_SPAN_INNERMOST, region, CEP_HOST);
    call_other_functions(profiler);
    close_now(profiler);
}

static void check_the_first_key_is_left_alone(void (*open)(void)) {
    own_the_first_key();
    open();
    call_everything();
    CHECK(pthread_getspecific(first_key) == ours);
}

TEST_THAT(a_disabled_profiler_uses_no_thread_key, check_the_first_key_is_left_alone(open_disabled))
TEST_THAT(an_unlisted_profiler_uses_no_thread_key, check_the_first_key_is_left_alone(open_unlisted))
TEST_THAT(a_closed_profiler_uses_no_thread_key_of_others, check_the_first_key_is_left_alone(open_and_close))

static void check_inherited(void) {
    call_everything();
    CHECK(pthread_getspecific(first_key) == ours);
}

TEST(an_inherited_profiler_uses_no_thread_key_of_others) {
    own_the_first_key();
    open_off(host_options());
    CHECK_CHILD_PASSES(check_inherited);
    close_now(profiler);
}

// Runs on a thread that has never recorded.
static void* count_allocations_of_every_call(void* unused) {
    (void)unused;
    const unsigned long before = allocations_of_this_thread();
    call_everything();
    return (void*)(uintptr_t)(allocations_of_this_thread() - before);
}

static void check_no_allocation_on_a_new_thread(void) {
    void* allocated = check_on_a_thread(count_allocations_of_every_call, NULL);
    CHECK_EQ((uintptr_t)allocated, 0);
}

static void check_off_allocates_nothing(void (*open)(void)) {
    if (!allocations_can_be_counted()) check_skip("the allocator is the sanitizer's");
    open();
    check_no_allocation_on_a_new_thread();
}

TEST_THAT(a_disabled_profiler_allocates_nothing, check_off_allocates_nothing(open_disabled))
TEST_THAT(an_unlisted_profiler_allocates_nothing, check_off_allocates_nothing(open_unlisted))
TEST_THAT(a_closed_profiler_allocates_nothing, check_off_allocates_nothing(open_and_close))

TEST(an_inherited_profiler_allocates_nothing) {
    if (!allocations_can_be_counted()) check_skip("the allocator is the sanitizer's");
    open_off(host_options());
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    CHECK_CHILD_PASSES(check_no_allocation_on_a_new_thread);
    close_now(profiler);
}

TEST(an_off_profiler_starts_no_thread_and_counts_nothing) {
    open_unlisted();
    call_everything();
    if (!CHECK_SANITIZED) CHECK_EQ(count_threads(), 1);
    CHECK_EQ(stats_of(profiler).recorded, 0);
    CHECK_EQ(stats_of(profiler).threads, 0);
    CHECK(!path_exists("out"));
}

// A thread that never recorded has no innermost span, so the library must allocate nothing for it.
static void* end_without_having_begun(void* unused) {
    const unsigned long before = allocations_of_this_thread();
    cep_end(region, CEP_SPAN_INNERMOST, CEP_HOST);
    (void)cep_end_with(region, CEP_SPAN_INNERMOST, CEP_HOST, NULL);
    (void)cep_switch(CEP_SPAN_INNERMOST, region, CEP_HOST);
    (void)cep_phase(profiler, region, CEP_HOST);
    (void)cep_phase(profiler, NULL, CEP_HOST);
    (void)unused;
    return (void*)(uintptr_t)(allocations_of_this_thread() - before);
}

TEST(ending_on_an_unrecorded_step_costs_a_thread_that_never_recorded_nothing) {
    if (!allocations_can_be_counted()) check_skip("the allocator is the sanitizer's");
    cep_options options = host_options();
    options.record_every_n_steps = 10;
    open_off(options);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    record_spans(profiler, "forward", 1);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    const uint32_t threads_before = stats_of(profiler).threads;
    void* allocated = check_on_a_thread(end_without_having_begun, NULL);
    CHECK_EQ((uintptr_t)allocated, 0);
    CHECK_EQ(stats_of(profiler).threads, threads_before);
    close_now(profiler);
}
