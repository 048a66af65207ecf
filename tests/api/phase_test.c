// SPDX-License-Identifier: Apache-2.0
//
// cep_phase(): the current phase that the library keeps for each thread.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trainer.h"

static const char* const names[] = {"forward", "backward", "optimizer"};
enum { phases = 3 };

static cep_profiler* profiler;
static cep_region* regions[phases];

static void open_job(int64_t stride) {
    cep_options options = host_options();
    options.record_every_n_steps = stride;
    profiler = open_with(&options);
    for (int i = 0; i < phases; ++i) regions[i] = cep_region_get(profiler, names[i], CEP_KIND_AUTO);
}

static void open_job_at_step(int64_t step) {
    open_job(1);
    CHECK_EQ(cep_step(profiler, step), CEP_OK);
}

static void train(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        for (int i = 0; i < phases; ++i) CHECK_EQ(cep_phase(profiler, regions[i], CEP_HOST), CEP_OK);
    }
}

static void end_phase(void) {
    CHECK_EQ(cep_phase(profiler, NULL, CEP_HOST), CEP_OK);
}

static rows close_and_read(void) {
    close_now(profiler);
    return rows_read(RANK_FILE);
}

static void check_contiguous(const row* this, const row* next) {
    const int64_t end_ns = row_int(this, "start_ns") + llround(row_number(this, "duration_ms") * 1e6);
    CHECK(llabs(end_ns - row_int(next, "start_ns")) <= 1);
}

TEST(phases_chain_within_and_across_steps) {
    enum { steps = 20 };
    open_job(1);
    train(0, steps - 1);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    end_phase();
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), steps * phases);
    for (size_t i = 0; i < steps * phases; ++i) {
        const row* this = rows_nth(&all, SPAN, i);
        CHECK_TEXT(row_text(this, "name"), names[i % phases]);
        CHECK_EQ(row_int(this, "step"), (int64_t)i / phases);
        CHECK_EQ(row_int(this, "depth"), 0);
        CHECK_EQ(row_int(this, "seq"), 0);
        if (i + 1 < steps * phases) check_contiguous(this, rows_nth(&all, SPAN, i + 1));
    }
}

TEST(a_step_that_is_not_recorded_ends_the_phase_and_begins_none) {
    open_job(10);
    train(0, 30);
    CHECK_EQ(stats_of(profiler).recorded, 4 * phases);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    CHECK_EQ(cep_step(profiler, 31), CEP_OK);
    CHECK_EQ(stats_of(profiler).open_spans, 1);  // it lasts until the thread's next call
    CHECK_EQ(cep_phase(profiler, regions[0], CEP_HOST), CEP_OK);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), 4 * phases);
    for (size_t i = 0; i < 4 * phases; ++i) CHECK_EQ(row_int(rows_nth(&all, SPAN, i), "step") % 10, 0);
}

TEST(ending_twice_ends_once) {
    open_job(1);
    train(0, 0);
    end_phase();
    end_phase();
    CHECK_EQ(stats_of(profiler).recorded, phases);
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), phases);
}

TEST(ending_before_any_phase_does_nothing) {
    open_job_at_step(0);
    end_phase();
    CHECK_EQ(stats_of(profiler).recorded, 0);
    CHECK_EQ(stats_of(profiler).threads, 0);
    close_now(profiler);
}

TEST(spans_nest_in_phases_and_phases_in_spans) {
    open_job(1);
    cep_region* outer = cep_region_get(profiler, "training_step", CEP_KIND_AUTO);
    cep_region* inner = cep_region_get(profiler, "all_reduce", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    const cep_span whole = cep_begin(outer, CEP_HOST);
    cep_phase(profiler, regions[0], CEP_HOST);
    const cep_span within = cep_begin(inner, CEP_HOST);
    cep_phase(profiler, regions[1], CEP_HOST);
    cep_end(inner, within, CEP_HOST);
    end_phase();
    cep_end(outer, whole, CEP_HOST);
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), 4);
    CHECK_EQ(row_int(rows_span(&all, "training_step", 0), "depth"), 0);
    CHECK_EQ(row_int(rows_span(&all, "forward", 0), "depth"), 1);
    CHECK_EQ(row_int(rows_span(&all, "all_reduce", 0), "depth"), 2);
    CHECK_EQ(row_int(rows_span(&all, "backward", 0), "depth"), 2);
}

TEST(a_phase_that_cep_end_has_ended_is_no_longer_current) {
    open_job_at_step(0);
    cep_phase(profiler, regions[0], CEP_HOST);
    cep_end(regions[0], CEP_SPAN_INNERMOST, CEP_HOST);
    cep_phase(profiler, regions[1], CEP_HOST);
    end_phase();
    const rows all = close_and_read();
    CHECK_EQ(rows_spans_named(&all, "forward"), 1);
    CHECK_EQ(rows_spans_named(&all, "backward"), 1);
}

TEST(a_region_of_another_profiler_is_refused_and_changes_nothing) {
    open_job(1);
    cep_profiler* other = open_in("other");
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    cep_phase(profiler, regions[0], CEP_HOST);
    CHECK_EQ(cep_phase(profiler, cep_region_get(other, "elsewhere", CEP_KIND_AUTO), CEP_HOST), CEP_EINVAL);
    CHECK_CONTAINS(cep_last_error(), "elsewhere");
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    end_phase();
    close_now(other);
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), 1);
}

TEST(each_profiler_has_a_phase_of_its_own) {
    open_job(1);
    cep_profiler* other = open_in("other");
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    CHECK_EQ(cep_step(other, 0), CEP_OK);
    cep_phase(profiler, regions[0], CEP_HOST);
    cep_phase(other, cep_region_get(other, "load", CEP_KIND_AUTO), CEP_HOST);
    end_phase();
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    CHECK_EQ(stats_of(other).open_spans, 1);
    CHECK_EQ(cep_phase(other, NULL, CEP_HOST), CEP_OK);
    CHECK_EQ(stats_of(other).open_spans, 0);
    close_now(other);
    close_now(profiler);
}

TEST(an_open_phase_gets_an_open_row_at_close) {
    open_job(1);
    train(0, 0);
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), phases - 1);
    CHECK_EQ(rows_count(&all, "open"), 1);
    CHECK_TEXT(row_text(rows_nth(&all, "open", 0), "name"), "optimizer");
    CHECK_EQ(cep_phase(profiler, regions[0], CEP_HOST), CEP_OK);  // a closed profiler ignores it
    CHECK_EQ(cep_phase(profiler, NULL, CEP_HOST), CEP_OK);
}

enum { threads = 8, rounds = 200 };

static void* run_phases(void* unused) {
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < phases; ++i) CHECK_EQ(cep_phase(profiler, regions[i], CEP_HOST), CEP_OK);
    end_phase();
    return unused;
}

TEST(threads_have_phases_of_their_own) {
    pthread_t running[threads];
    open_job_at_step(0);
    for (int i = 0; i < threads; ++i) CHECK_EQ(pthread_create(&running[i], NULL, run_phases, NULL), 0);
    for (int i = 0; i < threads; ++i) pthread_join(running[i], NULL);
    const cep_stats stats = stats_of(profiler);
    CHECK_EQ(stats.recorded, threads * rounds * phases);
    CHECK_EQ(stats.open_spans, 0);
    close_now(profiler);
}

static void* begin_a_phase(void* unused) {
    CHECK_EQ(cep_phase(profiler, regions[0], CEP_HOST), CEP_OK);
    return unused;
}

static void* begin_and_end_another(void* unused) {
    CHECK_EQ(cep_phase(profiler, NULL, CEP_HOST), CEP_OK);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    CHECK_EQ(cep_phase(profiler, regions[1], CEP_HOST), CEP_OK);
    end_phase();
    return unused;
}

// The second thread uses the ring of the first. It must not end its phase.
TEST(the_phase_of_a_thread_that_exited_stays_open) {
    open_job_at_step(0);
    check_on_a_thread(begin_a_phase, NULL);
    check_on_a_thread(begin_and_end_another, NULL);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    const rows all = close_and_read();
    CHECK_EQ(rows_spans_named(&all, "backward"), 1);
    CHECK_TEXT(row_text(rows_nth(&all, "open", 0), "name"), "forward");
}

TEST(a_forked_child_leaves_the_parents_phase_alone) {
    open_job(1);
    train(0, 0);
    const pid_t child = fork();
    if (child == 0) {
        const int32_t ended = cep_phase(profiler, NULL, CEP_HOST);
        const int32_t begun = cep_phase(profiler, regions[0], CEP_HOST);
        _exit(ended == CEP_OK && begun == CEP_OK ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    end_phase();
    const rows all = close_and_read();
    CHECK_EQ(rows_count(&all, SPAN), phases);
}

/* ---- cep_switch() without a region --------------------------------------------------------------------------- */

TEST(a_switch_to_no_region_ends_the_span) {
    open_job(1);
    for (int step = 0; step < 2000; ++step) {
        CHECK_EQ(cep_step(profiler, step), CEP_OK);
        const cep_span span = cep_switch(cep_begin(regions[0], CEP_HOST), regions[1], CEP_HOST);
        CHECK_EQ(cep_switch(span, NULL, CEP_HOST), CEP_SPAN_NONE);
        if (step % 100 == 0) CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    }
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    CHECK_EQ(stats_of(profiler).dropped_slots, 0);
    const rows all = close_and_read();
    CHECK_EQ(rows_spans_named(&all, names[1]), 2000);
    for (size_t i = 0; i < 2000; ++i) CHECK_EQ(row_int(rows_span(&all, names[1], i), "depth"), 0);
}

TEST(a_switch_to_no_region_ends_the_span_on_a_step_that_is_not_recorded) {
    open_job(2);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    const cep_span span = cep_begin(regions[0], CEP_HOST);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    CHECK_EQ(cep_switch(span, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    close_now(profiler);
}

TEST(a_switch_to_no_region_ends_the_innermost_span) {
    open_job_at_step(0);
    (void)cep_begin(regions[0], CEP_HOST);
    (void)cep_begin(regions[1], CEP_HOST);
    CHECK_EQ(cep_switch(CEP_SPAN_INNERMOST, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(stats_of(profiler).open_spans, 1);
    CHECK_EQ(cep_switch(CEP_SPAN_INNERMOST, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(cep_switch(CEP_SPAN_INNERMOST, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    const rows all = close_and_read();
    CHECK_EQ(rows_spans_named(&all, names[0]), 1);
    CHECK_EQ(rows_spans_named(&all, names[1]), 1);
}

static cep_span handed_over;

static void* end_on_another_thread(void* unused) {
    CHECK_EQ(cep_switch(handed_over, NULL, CEP_HOST), CEP_SPAN_NONE);
    return unused;
}

TEST(a_switch_to_no_region_ends_another_threads_span) {
    open_job_at_step(0);
    handed_over = cep_begin(regions[0], CEP_HOST);
    check_on_a_thread(end_on_another_thread, NULL);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    close_now(profiler);
}

TEST(a_switch_to_no_region_ends_the_span_of_its_own_profiler_only) {
    open_job(1);
    cep_profiler* other = open_in("other");
    cep_region* elsewhere = cep_region_get(other, "elsewhere", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 0), CEP_OK);
    CHECK_EQ(cep_step(other, 0), CEP_OK);
    const cep_span here = cep_begin(regions[0], CEP_HOST);
    const cep_span there = cep_begin(elsewhere, CEP_HOST);
    CHECK(here != there);
    CHECK_EQ(cep_switch(here, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(stats_of(profiler).open_spans, 0);
    CHECK_EQ(stats_of(other).open_spans, 1);
    cep_end(regions[0], there, CEP_HOST);  // a span of another profiler: nothing ends
    CHECK_EQ(stats_of(other).open_spans, 1);
    CHECK_EQ(cep_switch(there, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(stats_of(other).open_spans, 0);
    close_now(other);
    CHECK_EQ(cep_switch(there, NULL, CEP_HOST), CEP_SPAN_NONE);
    CHECK_EQ(cep_switch(CEP_SPAN_NONE, NULL, CEP_HOST), CEP_SPAN_NONE);
    close_now(profiler);
}
