// SPDX-License-Identifier: Apache-2.0
//
// Signal handlers that leave the call that they interrupt: by exit() or fork() at any moment, as schedulers' SIGTERM
// makes a trainer do, or by siglongjmp().
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocations.h"
#include "faulty_io.h"
#include "trainer.h"

enum { longest_s = 20, not_reached = 9, spans_before = 7 };

/* ---- At each allocation of a job ---------------------------------------------------------------------- */

static void* record_on_another_thread(void* profiler) {
    record_spans(profiler, "backward", 3);
    return NULL;
}

static void run_a_job(void) {
    alarm(longest_s);  // ends a child that hangs
    cep_profiler* profiler = open_at_step(1);
    CHECK_EQ(cep_set_meta(profiler, "{\"dp\":1,\"note\":\"some text\"}"), CEP_OK);
    record_spans(profiler, "forward", 3);
    CHECK_EQ(cep_counter(profiler, "loss", 0.5), CEP_OK);
    check_on_a_thread(record_on_another_thread, profiler);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    close_now(profiler);
    if (!allocations_called()) _exit(not_reached);
}

static long moment;
static void (*at_the_moment)(int);

static void interrupt(void) {
    raise(SIGTERM);
}

static void run_an_interrupted_job(void) {
    signal(SIGTERM, at_the_moment);
    allocations_call_at_nth(moment, interrupt);
    run_a_job();
}

// Runs a job for each of its allocations, interrupted just there. Each ends by itself and leaves whole rows.
static void check_at_each_allocation(void (*handler)(int)) {
    if (!allocations_can_be_counted()) check_skip("the sanitizer's allocator cannot be replaced");
    at_the_moment = handler;
    for (moment = 1;; ++moment) {
        const int status = check_in_child(run_an_interrupted_job);
        if (WIFEXITED(status) && WEXITSTATUS(status) == not_reached) break;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            check_fail(__FILE__, __LINE__, "interrupted at allocation %ld, ended with status %x", moment,
                       (unsigned)status);
        if (path_exists(RANK_FILE)) (void)rows_read(RANK_FILE);
    }
    CHECK(moment > 20);
}

static void exit_from_handler(int number) {
    (void)number;
    exit(0);
}

static void fork_from_handler(int number) {
    (void)number;
    const pid_t child = fork();
    if (child == 0) exit(0);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) _exit(3);
}

TEST_THAT(a_handler_may_exit_at_each_allocation_of_a_job, check_at_each_allocation(exit_from_handler))
TEST_THAT(a_handler_may_fork_at_each_allocation_of_a_job, check_at_each_allocation(fork_from_handler))

/* ---- While cep_close() waits --------------------------------------------------------------------------- */

static pthread_t trainer;
static atomic_bool handler_runs;

static void let_the_disk_go_and_exit(int number) {
    (void)number;
    handler_runs = true;
    exit(0);
}

static void* interrupt_the_close(void* unused) {
    io_wait_for_stalled_write();
    pthread_kill(trainer, SIGTERM);
    while (!handler_runs) sched_yield();
    io_release_writes();
    return unused;
}

static void close_and_be_interrupted(void) {
    alarm(longest_s);
    signal(SIGTERM, let_the_disk_go_and_exit);
    trainer = pthread_self();
    cep_profiler* profiler = open_at_step(1);
    record_spans(profiler, "forward", spans_before);
    (void)cep_begin(cep_region_get(profiler, "left_open", CEP_KIND_AUTO), CEP_HOST);
    io_stall_writes();
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, interrupt_the_close, NULL), 0);
    CHECK_EQ(pthread_detach(thread), 0);
    (void)cep_close(profiler, close_timeout_ms);
    _exit(not_reached);
}

TEST(exit_in_a_handler_that_interrupts_a_close_writes_the_rest) {
    CHECK_CHILD_PASSES(close_and_be_interrupted);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), spans_before);
    CHECK_EQ(rows_count(&all, "open"), 1);
    CHECK_EQ(row_int(rows_last(&all, "stats"), "written"), spans_before);
}

/* ---- siglongjmp() -------------------------------------------------------------------------------------------- */

static sigjmp_buf before_the_call;
static cep_stats read_elsewhere;

static void leave_the_call(int number) {
    siglongjmp(before_the_call, number);
}

static void* read_stats(void* profiler) {
    read_elsewhere = stats_of(profiler);
    return NULL;
}

TEST(a_thread_that_has_left_a_call_by_siglongjmp_is_counted_and_delays_no_close) {
    if (!allocations_can_be_counted()) check_skip("the sanitizer's allocator cannot be replaced");
    enum { while_inside = 3, later_spans = 10 };
    alarm(longest_s);
    signal(SIGTERM, leave_the_call);
    OPEN_AT_STEP(1, "forward");
    allocations_call_at_nth(while_inside, interrupt);
    if (sigsetjmp(before_the_call, 1) == 0) (void)cep_begin(region, CEP_HOST);
    CHECK(allocations_called());
    for (int i = 0; i < later_spans; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
    check_on_a_thread(read_stats, profiler);
    CHECK_EQ(read_elsewhere.dropped_slots, later_spans);
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_OK);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, SPAN), 0);
}
