// SPDX-License-Identifier: Apache-2.0
//
// Children made at any moment and in any way do not write the parent's file.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "every_call.h"
#include "faulty_io.h"

extern char** environ;

static cep_profiler* profiler;
static cep_region* region;
static atomic_bool done;

// Keeps the writer busy without filling the disk.
static void* record_in_bursts(void* unused) {
    const struct timespec pause = {0, 500000};
    while (!done) {
        for (int i = 0; i < 20; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        (void)cep_counter(profiler, "loss", 1);
        (void)cep_flush(profiler, 0);
        nanosleep(&pause, NULL);
    }
    return unused;
}

static pthread_t recorders[2];

static void start_recording(void) {
    profiler = open_here();
    region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    CHECK_EQ(cep_step(profiler, 1), CEP_OK);
    for (int i = 0; i < 2; ++i) CHECK_EQ(pthread_create(&recorders[i], NULL, record_in_bursts, NULL), 0);
}

static void finish_recording(void) {
    done = true;
    for (int i = 0; i < 2; ++i) CHECK_EQ(pthread_join(recorders[i], NULL), 0);
    const cep_stats stats = close_now(profiler);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_count(&all, "run"), 1);
    CHECK_EQ(rows_count(&all, "open"), 0);
    CHECK_EQ(rows_count(&all, SPAN) + rows_count(&all, "counter"), stats.written);
    CHECK_EQ(rows_spans_named(&all, "child"), 0);
}

static char* true_arguments[] = {(char*)(intptr_t) "true", NULL};

static void use_everything_in_the_child(void) {
    cep_region* child = cep_region_get(profiler, "child", CEP_KIND_AUTO);
    call_hot_functions(profiler, child, 1);
    cep_end(region, CEP_SPAN_INNERMOST, CEP_HOST);
    call_other_functions(profiler);
    if (cep_close(profiler, 1000) != CEP_OK) _exit(2);
}

static pid_t start_child(int number) {
    pid_t child = -1;
    switch (number % 5) {
        case 0:
            if ((child = fork()) == 0) {
                alarm(20);
                use_everything_in_the_child();
                exit(0);
            }
            return child;
        case 1:
            if ((child = fork()) == 0) {
                alarm(20);
                exit(0);
            }
            return child;
        case 2:
            if ((child = fork()) == 0) {
                execv("/bin/true", true_arguments);
                _exit(3);
            }
            return child;
        case 3:
            if ((child = vfork()) == 0) {
                execv("/bin/true", true_arguments);
                _exit(3);
            }
            return child;
        default:
            return posix_spawn(&child, "/bin/true", NULL, NULL, true_arguments, environ) == 0 ? child : -1;
    }
}

static void check_child_ended(pid_t child, int number) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) CHECK_EQ(errno, EINTR);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        check_fail(__FILE__, __LINE__, "child %d (way %d) ended with status %x", number, number % 5, (unsigned)status);
}

TEST(a_thousand_children_made_while_threads_record_leave_the_file_whole) {
    if (CHECK_SANITIZED) check_skip("sanitizers do not support a fork while other threads run");
    enum { children = 1000 };
    start_recording();
    for (int i = 0; i < children; ++i) {
        const pid_t child = start_child(i);
        CHECK(child > 0);
        check_child_ended(child, i);
    }
    finish_recording();
}

TEST(children_made_by_spawning_while_threads_record_leave_the_file_whole) {
    start_recording();
    for (int i = 0; i < 100; ++i) check_child_ended(start_child(4), 4);
    finish_recording();
}

TEST(a_child_made_while_the_disk_stalls_is_made_at_once_and_ends) {
    if (CHECK_SANITIZED) check_skip("sanitizers do not support a fork while other threads run");
    alarm(60);
    start_recording();
    io_stall_writes();
    io_wait_for_stalled_write();
    for (int i = 0; i < 10; ++i) check_child_ended(start_child(i), i);
    CHECK(io_writes_waiting() > 0);
    io_release_writes();
    finish_recording();
}

// A child of a child: the fork handlers run again without harm.
static void fork_again(void) {
    CHECK_CHILD_PASSES(use_everything_in_the_child);
    use_everything_in_the_child();
}

TEST(a_grandchild_does_nothing_on_the_profiler_either) {
    if (CHECK_SANITIZED) check_skip("sanitizers do not support a fork while other threads run");
    start_recording();
    for (int i = 0; i < 20; ++i) CHECK_CHILD_PASSES(fork_again);
    finish_recording();
}

/* ---- The lock of the rank file ------------------------------------------------------------------------ */

static void open_the_same_file_in_the_child(void) {
    cep_profiler* second = open_at_step(1);
    CHECK_EQ(cep_recording(second), 0);
    record_spans(second, "child", 10);
    close_now(second);
}

TEST(a_child_that_opens_its_parents_file_is_off) {
    profiler = open_here();
    record_step(profiler, 1, "forward");
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_CHILD_PASSES(open_the_same_file_in_the_child);
    const rows all = rows_after_close(profiler);
    CHECK_EQ(rows_count(&all, "run"), 1);
    CHECK_EQ(rows_count(&all, SPAN), 1);
}

static volatile pid_t* orphan;

static void become_an_orphan_by_fork(void) {
    if (fork() == 0) {
        *orphan = getpid();  // after the fork: its copy of the file is closed
        alarm(120);
        for (;;) pause();
    }
    while (*orphan == 0) sched_yield();
}

static void become_an_orphan_by_spawning(void) {
    static char* arguments[] = {(char*)(intptr_t) "sleep", (char*)(intptr_t) "120", NULL};
    pid_t child = -1;
    CHECK_EQ(posix_spawn(&child, "/bin/sleep", NULL, NULL, arguments, environ), 0);
    *orphan = child;
}

static void (*make_orphan)(void);

static void train_and_be_killed(void) {
    profiler = open_here();
    record_step(profiler, 1, "forward");
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    make_orphan();
    raise(SIGKILL);
}

static void check_restart_beside_orphan(void (*make)(void)) {
    make_orphan = make;
    orphan = mmap(NULL, sizeof *orphan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(orphan != MAP_FAILED);
    const int status = check_in_child(train_and_be_killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(*orphan > 0);
    CHECK_EQ(kill(*orphan, 0), 0);
    cep_profiler* restarted = open_at_step(2);
    const int32_t records = cep_recording(restarted);
    record_spans(restarted, "backward", 5);
    close_now(restarted);
    CHECK_EQ(kill(*orphan, SIGKILL), 0);
    CHECK_EQ(records, 1);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "backward"), 5);
    CHECK_EQ(rows_count(&all, "run"), 2);
    CHECK_EQ(row_int(rows_last(&all, "run"), "attempt"), 2);
}

TEST_THAT(an_orphan_of_fork_does_not_keep_the_restart_off, check_restart_beside_orphan(become_an_orphan_by_fork))
TEST_THAT(an_orphan_program_does_not_keep_the_restart_off, check_restart_beside_orphan(become_an_orphan_by_spawning))
