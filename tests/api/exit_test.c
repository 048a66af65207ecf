// SPDX-License-Identifier: Apache-2.0
//
// Processes and threads that end at unusual moments.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer.h"

static cep_profiler* profiler;
static cep_region* region;

static void open_shared(void) {
    profiler = open_here();
    region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
}

static _Atomic int recorded_once;

static void* record_forever(void* argument) {
    (void)argument;
    for (;;) {
        cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        (void)cep_counter(profiler, "loss", 1);
        recorded_once = 1;
    }
    return NULL;
}

static void exit_while_others_record(void) {
    open_shared();
    pthread_t thread;
    for (int i = 0; i < 3; ++i) CHECK_EQ(pthread_create(&thread, NULL, record_forever, NULL), 0);
    while (!recorded_once) continue;
}

TEST(exit_while_other_threads_record_leaves_a_valid_file) {
    enum { starts = 20 };
    for (int i = 0; i < starts; ++i) CHECK_CHILD_PASSES(exit_while_others_record);
    CHECK(count_spans_in_file(RANK_FILE) > 0);
}

static void* exit_from_a_thread(void* argument) {
    (void)argument;
    record_spans(profiler, "forward", 10);
    exit(0);
}

static void leave_from_another_thread(void) {
    open_shared();
    check_on_a_thread(exit_from_a_thread, NULL);
}

TEST(exit_from_another_thread_loses_nothing) {
    CHECK_CHILD_PASSES(leave_from_another_thread);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 10);
}

static void record_after_the_library_closed(void) {
    (void)cep_step(profiler, 1);
    record_spans(profiler, "late", 10);
    (void)cep_flush(profiler, 1000);
    (void)cep_close(profiler, 1000);
}

static void leave_with_a_late_handler(void) {
    CHECK_EQ(atexit(record_after_the_library_closed), 0);
    open_shared();
    record_spans(profiler, "forward", 10);
}

TEST(an_exit_handler_that_runs_after_the_librarys_is_harmless) {
    CHECK_CHILD_PASSES(leave_with_a_late_handler);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 10);
}

static void end_span_and_record(void* span) {
    cep_end(region, (cep_span)(uintptr_t)span, CEP_HOST);
    record_spans(profiler, "backward", 5);
}

static pthread_key_t late_key;

static void* begin_and_leave_the_end_to_the_destructor(void* argument) {
    CHECK_EQ(pthread_setspecific(late_key, (void*)(uintptr_t)cep_begin(region, CEP_HOST)), 0);
    return argument;
}

TEST(spans_may_end_and_begin_in_destructors_of_a_thread) {
    CHECK_EQ(pthread_key_create(&late_key, end_span_and_record), 0);
    open_shared();
    check_on_a_thread(begin_and_leave_the_end_to_the_destructor, NULL);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
    CHECK_EQ(rows_spans_named(&all, "backward"), 5);
}

TEST(programs_that_the_trainer_starts_inherit_no_descriptor) {
    open_shared();
    record_spans(profiler, "forward", 1);
    for (int descriptor = 3; descriptor < 256; ++descriptor) {
        const int flags = fcntl(descriptor, F_GETFD);
        if (flags < 0) continue;
        char link[64], target[4096] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        CHECK(readlink(link, target, sizeof target - 1) >= 0);
        if (strstr(target, "cuda_events_rank_") != NULL) CHECK((flags & FD_CLOEXEC) != 0);
    }
    close_now(profiler);
}
