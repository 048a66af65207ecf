// SPDX-License-Identifier: Apache-2.0
//
// Signal handlers that record, and that interrupt a thread that records.
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "every_call.h"

// The handlers here make calls that cep.h does not allow in handlers. These calls must still do no harm.
const char* __tsan_default_options(void);
const char* __tsan_default_options(void) {
    return "report_signal_unsafe=0";
}

static cep_profiler* profiler;
static cep_region *loop_region, *handler_region;
static volatile uint64_t measured_by_handler;
static volatile sig_atomic_t handler_runs;
static volatile sig_atomic_t counts_were_false;

static void record_from_handler(int number) {
    (void)number;
    call_hot_functions(profiler, handler_region, 1);
    measured_by_handler += hot_measurements;
    ++handler_runs;
}

static void get_stats_from_handler(int number) {
    record_from_handler(number);
    cep_stats stats = {.struct_size = sizeof stats};
    if (cep_get_stats(profiler, &stats) == CEP_OK && stats.recorded == 0) counts_were_false = 1;
    (void)cep_flush(profiler, 0);
}

static timer_t timer;

// A separate timer, because SIGALRM ends a test that hangs.
static void interrupt_often(void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    const struct itimerspec often = {{0, 200000}, {0, 200000}};
    CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
}

static void stop_interrupting(void) {
    CHECK_EQ(timer_delete(timer), 0);
    signal(SIGUSR2, SIG_IGN);
}

static void open_shared(void) {
    alarm(60);
    cep_options options = host_options();
    options.max_file_bytes = 8 << 20;
    profiler = open_with(&options);
    loop_region = cep_region_get(profiler, "loop", CEP_KIND_AUTO);
    handler_region = cep_region_get(profiler, "handler", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    call_hot_functions(profiler, loop_region, 1);
    call_hot_functions(profiler, handler_region, 1);
}

enum { interruptions = 5000, longest_s = 20 };

static void check_interrupted_loop(void (*handler)(int)) {
    open_shared();
    uint64_t measured = 2 * hot_measurements;
    const time_t start = time(NULL);
    interrupt_often(handler);
    while (handler_runs < interruptions && time(NULL) - start < longest_s) {
        for (int i = 0; i < 50; ++i) call_hot_functions(profiler, loop_region, 1);
        measured += 50 * hot_measurements;
    }
    stop_interrupting();
    CHECK(handler_runs > 0);
    CHECK(!counts_were_false);
    const cep_stats now = accounted_stats_of(profiler);
    CHECK_EQ(now.recorded, measured + measured_by_handler);
    const cep_stats last = close_now(profiler);
    CHECK_EQ(last.recorded, now.recorded);
    CHECK_EQ(last.open_spans, 0);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN) + rows_count(&all, "counter") + rows_count(&all, "mark"), last.written);
    printf("# %d interruptions, %llu spans, %llu refused\n", (int)handler_runs, (unsigned long long)last.recorded,
           (unsigned long long)last.dropped_slots);
}

TEST_THAT(a_handler_may_make_every_hot_call_at_any_moment, check_interrupted_loop(record_from_handler))
TEST_THAT(a_handler_may_read_the_counts_and_ask_for_a_flush_at_any_moment,
          check_interrupted_loop(get_stats_from_handler))

// The handler interrupts a slow call of the library, which may hold a lock.
TEST(a_handler_may_make_every_hot_call_while_its_thread_looks_up_flushes_and_reads_counts) {
    open_shared();
    uint64_t measured = 2 * hot_measurements;
    const time_t start = time(NULL);
    interrupt_often(record_from_handler);
    for (int i = 0; handler_runs < 2000 && time(NULL) - start < longest_s; ++i) {
        char name[32];
        snprintf(name, sizeof name, "region %d", i % 1000);
        CHECK(cep_region_get(profiler, name, CEP_KIND_AUTO) != NULL);
        (void)cep_counter(profiler, name, i);
        ++measured;
        call_other_functions(profiler);
    }
    stop_interrupting();
    CHECK(handler_runs > 0);
    const cep_stats now = accounted_stats_of(profiler);
    CHECK_EQ(now.recorded, measured + measured_by_handler);
    close_now(profiler);
    (void)rows_read(RANK_FILE);
}
