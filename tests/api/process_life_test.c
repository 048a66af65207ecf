// SPDX-License-Identifier: Apache-2.0
//
// Exit, fork, threads that exit, and handles used after close.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer.h"

static void leave_without_close(void) {
    cep_profiler* profiler = open_at_step(1);
    record_spans(profiler, "forward", 50);
    cep_begin(cep_region_get(profiler, "backward", CEP_KIND_AUTO), CEP_HOST);
}

TEST(exit_without_close_loses_nothing) {
    CHECK_CHILD_PASSES(leave_without_close);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 50);
    CHECK_EQ(rows_count(&all, "open"), 1);
    CHECK_EQ(rows_count(&all, "stats") > 0, 1);
}

static volatile sig_atomic_t stop_requested;
static pid_t handler_thread;

static void request_stop(int number) {
    (void)number;
    handler_thread = gettid();
    stop_requested = 1;
}

TEST(the_trainers_threads_get_the_signals_of_the_process) {
    signal(SIGUSR1, request_stop);
    cep_profiler* profiler = open_and_record();
    for (int i = 0; i < 100; ++i) {
        stop_requested = 0;
        kill(getpid(), SIGUSR1);
        while (!stop_requested) continue;
        CHECK_EQ(handler_thread, getpid());
    }
    close_now(profiler);
}

// State that the forked children below inherit.
static cep_profiler* inherited;
static cep_region* inherited_region;
static cep_span inherited_span;

static void call_everything_on_the_inherited_profiler(void) {
    CHECK_EQ(cep_step(inherited, 77), CEP_OK);
    CHECK_EQ(cep_recording(inherited), 0);
    CHECK(cep_begin(inherited_region, CEP_HOST) == CEP_SPAN_NONE);
    cep_end(inherited_region, inherited_span, CEP_HOST);
    cep_end(inherited_region, CEP_SPAN_INNERMOST, CEP_HOST);
    CHECK(cep_switch(inherited_span, inherited_region, CEP_HOST) == CEP_SPAN_NONE);
    CHECK_EQ(cep_phase(inherited, inherited_region, CEP_HOST), CEP_OK);
    CHECK_EQ(cep_record(inherited_region, 0, 1, NULL), CEP_OK);
    CHECK_EQ(cep_counter(inherited, "loss", 1), CEP_OK);
    CHECK_EQ(cep_mark(inherited, "checkpoint", NULL), CEP_OK);
    CHECK_EQ(cep_enabled(inherited), 0);
    CHECK_EQ(cep_rank(inherited), 0);
    CHECK_EQ(cep_set_meta(inherited, "{\"dp\":1}"), CEP_OK);
    CHECK_EQ(cep_flush(inherited, 1000), CEP_OK);
    CHECK_EQ(cep_close(inherited, 1000), CEP_OK);
    if (!CHECK_SANITIZED) wait_for_threads(1);
}

TEST(a_forked_child_does_nothing_on_the_parents_profiler) {
    inherited = open_here();
    inherited_region = cep_region_get(inherited, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(inherited, 1), CEP_OK);
    record_spans(inherited, "forward", 10);
    inherited_span = cep_begin(inherited_region, CEP_HOST);
    // A sanitizer's allocator does not survive a fork while another thread is inside it, so the writer must be idle.
    if (CHECK_SANITIZED) CHECK_EQ(cep_flush(inherited, close_timeout_ms), CEP_OK);
    CHECK_CHILD_PASSES(call_everything_on_the_inherited_profiler);
    cep_end(inherited_region, inherited_span, CEP_HOST);
    record_spans(inherited, "forward", 10);
    const rows all = rows_after_close(inherited);
    CHECK_EQ(rows_spans_named(&all, "forward"), 21);
    CHECK_EQ(rows_count(&all, "counter") + rows_count(&all, "mark") + rows_count(&all, "open"), 0);
    CHECK_EQ(rows_count(&all, "run"), 1);
}

static void open_a_profiler_of_its_own(void) {
    cep_options options = host_options();
    options.rank = 1;
    options.world_size = 2;
    cep_profiler* profiler = open_with(&options);
    record_step(profiler, 3, "data_load");
    close_now(profiler);
}

TEST(a_forked_child_may_open_its_own_profiler) {
    // The sanitizers' allocators do not survive a fork while another thread is inside one of them.
    if (CHECK_SANITIZED) check_skip("sanitizers do not support threads in a child of a threaded process");
    inherited = open_here();
    record_step(inherited, 1, "forward");
    CHECK_CHILD_PASSES(open_a_profiler_of_its_own);
    close_now(inherited);
    const rows parent = rows_read(RANK_FILE), child = rows_read("out/cuda_events_rank_1.jsonl");
    CHECK_EQ(rows_spans_named(&parent, "forward"), 1);
    CHECK_EQ(rows_spans_named(&child, "data_load"), 1);
    CHECK(row_int(rows_nth(&child, "run", 0), "pid") != getpid());
}

TEST(closing_twice_is_closing_once) {
    cep_profiler* profiler = open_and_record();
    close_now(profiler);
    const long before = file_size(RANK_FILE);
    close_now(profiler);
    CHECK_EQ(file_size(RANK_FILE), before);
}

TEST(calls_after_close_do_nothing) {
    inherited = open_here();
    inherited_region = cep_region_get(inherited, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(inherited, 0), CEP_OK);
    inherited_span = cep_begin(inherited_region, CEP_HOST);
    close_now(inherited);
    const long before = file_size(RANK_FILE);
    call_everything_on_the_inherited_profiler();
    cep_stats stats = {.struct_size = sizeof stats};
    CHECK_EQ(cep_get_stats(inherited, &stats), CEP_OK);
    (void)cep_region_get(inherited, "late", CEP_KIND_AUTO);
    CHECK_EQ(file_size(RANK_FILE), before);
}

TEST(null_handles_are_accepted_on_the_hot_path) {
    CHECK_EQ(cep_step(NULL, 1), CEP_OK);
    CHECK_EQ(cep_recording(NULL), 0);
    CHECK_EQ(cep_enabled(NULL), 0);
    CHECK(cep_begin(NULL, CEP_HOST) == CEP_SPAN_NONE);
    CHECK(cep_begin_with(NULL, CEP_HOST, NULL) == CEP_SPAN_NONE);
    cep_end(NULL, CEP_SPAN_NONE, CEP_HOST);
    cep_end(NULL, CEP_SPAN_INNERMOST, CEP_HOST);
    cep_end(NULL, 12345, CEP_HOST);
    CHECK_EQ(cep_end_with(NULL, CEP_SPAN_NONE, CEP_HOST, NULL), CEP_OK);
    CHECK(cep_switch(CEP_SPAN_NONE, NULL, CEP_HOST) == CEP_SPAN_NONE);
    CHECK(cep_switch(CEP_SPAN_INNERMOST, NULL, CEP_HOST) == CEP_SPAN_NONE);
    CHECK_EQ(cep_phase(NULL, NULL, CEP_HOST), CEP_OK);
    CHECK_EQ(cep_record(NULL, 0, 1, NULL), CEP_OK);
    CHECK_EQ(cep_counter(NULL, "loss", 1), CEP_OK);
    CHECK_EQ(cep_mark(NULL, "checkpoint", NULL), CEP_OK);
}

TEST(null_handles_are_refused_elsewhere) {
    CHECK_EQ(cep_close(NULL, 0), CEP_EINVAL);
    CHECK_EQ(cep_flush(NULL, 0), CEP_EINVAL);
    CHECK_EQ(cep_set_meta(NULL, "{}"), CEP_EINVAL);
    CHECK_EQ(cep_rank(NULL), CEP_EINVAL);
    CHECK(cep_region_get(NULL, "forward", CEP_KIND_AUTO) == NULL);
}

TEST(a_profiler_is_enabled_from_open_to_close) {
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_enabled(profiler), 1);
    close_now(profiler);
    CHECK_EQ(cep_enabled(profiler), 0);
}

TEST(a_profiler_that_is_off_is_not_enabled) {
    static const int32_t others[] = {1, 2};
    cep_options disabled = host_options(), unlisted = host_options(), busy = host_options();
    disabled.enable = 0;
    unlisted.ranks = others;
    unlisted.ranks_count = 2;
    CHECK_EQ(cep_enabled(open_with(&disabled)), 0);
    unlisted.world_size = 3;
    CHECK_EQ(cep_enabled(open_with(&unlisted)), 0);
    cep_profiler* first = open_with(&busy);
    CHECK_EQ(cep_enabled(open_with(&busy)), 0);
    CHECK_EQ(cep_enabled(first), 1);
    close_now(first);
}

TEST(the_rank_is_the_options_or_the_launchers) {
    cep_options options = host_options();
    options.rank = 3;
    options.world_size = 8;
    cep_profiler* given = open_with(&options);
    CHECK_EQ(cep_rank(given), 3);
    close_now(given);
    CHECK_EQ(cep_rank(given), 3);
    setenv("SLURM_PROCID", "5", 1);
    options.rank = CEP_FIND_IT;
    options.enable = 0;
    CHECK_EQ(cep_rank(open_with(&options)), 5);
    unsetenv("SLURM_PROCID");
}

TEST(several_profilers_in_one_process_do_not_mix) {
    enum { profilers = 5 };
    cep_profiler* opened[profilers];
    for (int i = 0; i < profilers; ++i) {
        cep_options options = host_options();
        options.rank = i;
        options.world_size = profilers;
        options.record_every_n_steps = 1 + i;
        opened[i] = open_with(&options);
    }
    for (int step = 0; step < 60; ++step)
        for (int i = 0; i < profilers; ++i) record_step(opened[i], step, "forward");
    for (int i = profilers - 1; i >= 0; --i) close_now(opened[i]);
    for (int i = 0; i < profilers; ++i) {
        char path[64];
        snprintf(path, sizeof path, "out/cuda_events_rank_%d.jsonl", i);
        const rows all = rows_read(path);
        CHECK_EQ(rows_spans_named(&all, "forward"), 60 / (1 + i));
        CHECK_EQ(row_int(rows_nth(&all, SPAN, 0), "rank"), i);
    }
}

TEST(spans_of_two_profilers_nest_on_one_thread) {
    cep_options options = host_options();
    options.rank = 1;
    options.world_size = 2;
    cep_profiler *first = open_here(), *second = open_with(&options);
    cep_region* outer = cep_region_get(first, "outer", CEP_KIND_OTHER);
    cep_region* inner = cep_region_get(second, "inner", CEP_KIND_OTHER);
    CHECK_EQ(cep_step(first, 0), CEP_OK);
    CHECK_EQ(cep_step(second, 0), CEP_OK);
    cep_begin(outer, CEP_HOST);
    cep_begin(inner, CEP_HOST);
    cep_end(outer, CEP_SPAN_INNERMOST, CEP_HOST);
    cep_end(inner, CEP_SPAN_INNERMOST, CEP_HOST);
    close_now(first);
    close_now(second);
    const rows all = rows_read(RANK_FILE), others = rows_read("out/cuda_events_rank_1.jsonl");
    CHECK_EQ(row_int(rows_span(&all, "outer", 0), "depth"), 0);
    CHECK_EQ(row_int(rows_span(&others, "inner", 0), "depth"), 0);
}

TEST(opening_and_closing_many_times_leaks_no_file_and_no_thread) {
    const int threads_before = count_threads();
    for (int i = 0; i < 300; ++i) {
        cep_profiler* profiler = open_here();
        record_step(profiler, i, "forward");
        close_now(profiler);
    }
    if (!CHECK_SANITIZED) wait_for_threads(threads_before);
    const int descriptor = dup(0);
    CHECK(descriptor >= 0 && descriptor < 50);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 300);
}

static void* begin_and_go(void* argument) {
    cep_begin(cep_region_get(argument, "backward", CEP_KIND_AUTO), CEP_HOST);
    return NULL;
}

TEST(a_span_left_open_by_a_thread_that_exits_gets_an_open_row) {
    cep_profiler* profiler = open_at_step(4);
    check_on_a_thread(begin_and_go, profiler);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "open"), 1);
    (void)accounted_stats_of(profiler);
}

TEST(last_error_is_empty_at_first_and_belongs_to_the_thread) {
    CHECK_TEXT(cep_last_error(), "");
    cep_profiler* profiler = open_here();
    CHECK_EQ(cep_step(profiler, -1), CEP_EINVAL);
    CHECK(cep_last_error()[0] != '\0');
    char kept[256];
    snprintf(kept, sizeof kept, "%s", cep_last_error());
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    CHECK_TEXT(cep_last_error(), kept);
    close_now(profiler);
}

static void* read_last_error(void* argument) {
    (void)argument;
    return (void*)(intptr_t)(cep_last_error()[0] == '\0');
}

TEST(an_error_of_one_thread_is_not_seen_by_another) {
    CHECK_EQ(cep_close(NULL, 0), CEP_EINVAL);
    void* was_empty = check_on_a_thread(read_last_error, NULL);
    CHECK(was_empty != NULL);
}

TEST(every_code_has_a_description_and_unknown_ones_say_so) {
    for (int32_t code = CEP_EINTERNAL; code <= CEP_OK; ++code) {
        CHECK(cep_strerror(code)[0] != '\0');
        CHECK(strcmp(cep_strerror(code), "unknown code") != 0);
        for (int32_t other = CEP_EINTERNAL; other < code; ++other)
            CHECK(strcmp(cep_strerror(code), cep_strerror(other)) != 0);
    }
    CHECK_TEXT(cep_strerror(-11), "unknown code");
    CHECK_TEXT(cep_strerror(1), "unknown code");
    CHECK_TEXT(cep_strerror(INT32_MIN), "unknown code");
}

TEST(the_version_is_that_of_the_header) {
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", CEP_VERSION_MAJOR, CEP_VERSION_MINOR, CEP_VERSION_PATCH);
    CHECK_TEXT(cep_version(), expected);
}
