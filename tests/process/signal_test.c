// SPDX-License-Identifier: Apache-2.0
//
// The library does not interfere with signals: the trainer's handlers run on its threads, fatal signals end it, and the
// library raises none.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faulty_io.h"
#include "trainer.h"

static cep_profiler* profiler;
static pthread_t trainer;
static pid_t trainer_id;

static void start_training(void) {
    trainer = pthread_self();
    trainer_id = gettid();
    profiler = open_at_step(1);
    record_spans(profiler, "forward", 100);
}

static void check_everything_is_written(void) {
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 100);
}

/* ---- Handlers while a call waits ----------------------------------------------------------------- */

static atomic_bool in_call;
static atomic_int runs_in_call;
static atomic_int runs_elsewhere;
static int runs_while_stalled;

static void count_run(int number) {
    (void)number;
    if (in_call && gettid() == trainer_id)
        ++runs_in_call;
    else
        ++runs_elsewhere;
}

static bool trainer_sleeps(void) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)trainer_id);
    FILE* file = fopen(path, "r");
    if (file == NULL) return false;
    const size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char* state = strrchr(text, ')');
    return state != NULL && state[1] == ' ' && state[2] == 'S';
}

enum { signals_to_send = 5, patience_s = 5 };

// Each signal is sent while the trainer's thread sleeps in a call, and must be handled during that sleep.
static void* signal_the_waiting_trainer(void* number) {
    io_wait_for_stalled_write();
    const time_t start = time(NULL);
    for (int i = 0; i < signals_to_send; ++i) {
        while (!(in_call && trainer_sleeps())) sched_yield();
        pthread_kill(trainer, (int)(intptr_t)number);
        while (runs_in_call <= i && time(NULL) - start <= patience_s) sched_yield();
    }
    runs_while_stalled = runs_in_call;
    io_release_writes();
    return NULL;
}

static void check_handler_runs_during(int32_t (*call)(cep_profiler*, int64_t), int number) {
    alarm(120);
    signal(number, count_run);
    start_training();
    io_stall_writes();
    pthread_t sender;
    CHECK_EQ(pthread_create(&sender, NULL, signal_the_waiting_trainer, (void*)(intptr_t)number), 0);
    in_call = true;
    const int32_t code = call(profiler, close_timeout_ms);
    in_call = false;
    CHECK_EQ(pthread_join(sender, NULL), 0);
    CHECK_EQ(code, CEP_OK);
    CHECK_EQ(runs_elsewhere, 0);
    CHECK_EQ(runs_while_stalled, signals_to_send);
    close_now(profiler);
    check_everything_is_written();
}

TEST_THAT(a_handler_runs_while_its_thread_waits_in_flush, check_handler_runs_during(cep_flush, SIGUSR1))
TEST_THAT(a_handler_runs_while_its_thread_waits_in_close, check_handler_runs_during(cep_close, SIGUSR1))
TEST_THAT(a_realtime_signals_handler_runs_while_its_thread_waits_in_close,
          check_handler_runs_during(cep_close, SIGRTMIN))

// The kernel delivers it to a thread that does not block it; only the one in the call does not.
TEST(an_alarm_goes_off_while_the_only_thread_waits_in_flush) {
    start_training();
    signal(SIGALRM, count_run);
    io_stall_writes();
    const struct itimerval soon = {.it_value = {.tv_usec = 100000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
    in_call = true;
    (void)cep_flush(profiler, 3000);
    in_call = false;
    CHECK_EQ(runs_in_call, 1);
    io_release_writes();
    close_now(profiler);
    check_everything_is_written();
}

static void interrupt_every_ms(void) {
    const struct sigaction action = {.sa_handler = count_run};  // without SA_RESTART
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void stop_interrupting(void) {
    const struct itimerval never = {{0, 0}, {0, 0}};
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
}

TEST(system_calls_that_signals_interrupt_lose_nothing) {
    interrupt_every_ms();
    for (int start = 0; start < 20; ++start) {
        cep_profiler* each = open_here();
        for (int step = 0; step < 20; ++step) {
            record_step(each, step, "forward");
            CHECK_EQ(cep_flush(each, close_timeout_ms), CEP_OK);
        }
        CHECK_EQ(cep_close(each, close_timeout_ms), CEP_OK);
    }
    stop_interrupting();
    CHECK(runs_elsewhere > 0);
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "forward"), 400);
    CHECK_EQ(rows_count(&all, "open"), 0);
}

/* ---- Signals that writing raises ------------------------------------------------------------------- */

static void limit_file_to_its_size(void) {
    const struct rlimit limit = {(rlim_t)file_size(RANK_FILE), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void train_past_the_file_size_limit(void) {
    signal(SIGXFSZ, SIG_DFL);
    start_training();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    limit_file_to_its_size();
    for (int step = 2; step < 200; ++step) record_step(profiler, step, "backward");
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);
    for (int step = 200; step < 400; ++step) record_step(profiler, step, "backward");
}

static void close_past_the_file_size_limit(void) {
    train_past_the_file_size_limit();
    CHECK_EQ(cep_close(profiler, close_timeout_ms), CEP_EIO);
    const cep_stats stats = accounted_stats_of(profiler);
    CHECK_EQ(stats.dropped_io, 398);
}

TEST(the_file_size_limit_does_not_kill_a_trainer_that_closes) {
    CHECK_CHILD_PASSES(close_past_the_file_size_limit);
    check_everything_is_written();
}
TEST(the_file_size_limit_does_not_kill_a_trainer_that_exits) {
    CHECK_CHILD_PASSES(train_past_the_file_size_limit);
    check_everything_is_written();
}

static void write_from_the_trainers_thread(void) {
    io_fail_threads(IO_FOR_EVER);
    close_past_the_file_size_limit();
}

TEST(the_file_size_limit_does_not_kill_a_trainer_that_writes_the_rows_itself) {
    if (CHECK_SANITIZED) check_skip("pthread_create is the sanitizer's");
    CHECK_CHILD_PASSES(write_from_the_trainers_thread);
    check_everything_is_written();
}

static void open_with_a_full_disk(void) {
    signal(SIGXFSZ, SIG_DFL);
    const struct rlimit limit = {0, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    start_training();
    (void)cep_close(profiler, close_timeout_ms);
    CHECK_EQ(stats_of(profiler).dropped_io, 100);
}

TEST_THAT(open_on_a_full_disk_succeeds_and_raises_nothing, CHECK_CHILD_PASSES(open_with_a_full_disk))

// The library's messages on stderr go to a pipe without a reader.
static void break_stderr(void) {
    signal(SIGPIPE, SIG_DFL);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
}

static void report_with_a_broken_stderr(void) {
    break_stderr();
    start_training();
    cep_profiler* second = open_here();  // prints that another profiler is writing
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    limit_file_to_its_size();
    record_spans(profiler, "backward", 10);
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_EIO);  // prints that writing fails
    (void)cep_close(second, close_timeout_ms);
    (void)cep_close(profiler, close_timeout_ms);
}

TEST(a_broken_stderr_does_not_kill_the_trainer) {
    CHECK_CHILD_PASSES(report_with_a_broken_stderr);
    check_everything_is_written();
}

TEST(a_pending_signal_of_the_trainers_stays_pending) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    sigaddset(&own, SIGXFSZ);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &own, NULL), 0);
    raise(SIGPIPE);
    raise(SIGXFSZ);
    start_training();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    close_now(profiler);
    CHECK_EQ(sigpending(&own), 0);
    CHECK_EQ(sigismember(&own, SIGPIPE), 1);
    CHECK_EQ(sigismember(&own, SIGXFSZ), 1);
}

/* ---- Ends by a signal ------------------------------------------------------------------------------- */

static int from_child, to_parent;

static void open_pipe(void) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    from_child = ends[0];
    to_parent = ends[1];
}

static void train_until_killed(void) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    start_training();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    CHECK_EQ(write(to_parent, "x", 1), 1);
    for (int64_t step = 0;; ++step) {
        record_step(profiler, step, "backward");
        if (step % 20 == 0) (void)cep_flush(profiler, close_timeout_ms);
    }
}

static void check_end_by(int number, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        open_pipe();
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) train_until_killed();
        char byte;
        CHECK_EQ(read(from_child, &byte, 1), 1);
        close(from_child);
        close(to_parent);
        const struct timespec moment = {0, 300000 * i};
        nanosleep(&moment, NULL);
        kill(child, number);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
    }
    const rows all = rows_read_leniently(RANK_FILE);  // the kill may have cut the last line of each start
    CHECK_EQ(rows_spans_named(&all, "forward"), 100 * rounds);
    CHECK_EQ(rows_count(&all, "run"), rounds);
}

TEST_THAT(sigterm_with_its_default_action_ends_the_trainer_and_leaves_whole_lines, check_end_by(SIGTERM, 30))
TEST_THAT(sigint_with_its_default_action_ends_the_trainer_and_leaves_whole_lines, check_end_by(SIGINT, 30))

static volatile sig_atomic_t stop_requested;

static void request_stop(int number) {
    (void)number;
    stop_requested = 1;
}

static void train_until_asked_to_stop(void) {
    signal(SIGINT, request_stop);
    start_training();
    CHECK_EQ(write(to_parent, "x", 1), 1);
    int64_t step = 0;
    for (; !stop_requested; ++step) {
        record_step(profiler, step, "backward");
        CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    }
    CHECK_EQ(write(to_parent, &step, sizeof step), sizeof step);
}

TEST(sigint_that_sets_a_flag_loses_nothing) {
    open_pipe();
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        train_until_asked_to_stop();
        exit(0);
    }
    char byte;
    int64_t steps = 0;
    CHECK_EQ(read(from_child, &byte, 1), 1);
    kill(child, SIGINT);
    CHECK_EQ(read(from_child, &steps, sizeof steps), sizeof steps);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_everything_is_written();
    const rows all = rows_read(RANK_FILE);
    CHECK_EQ(rows_spans_named(&all, "backward"), steps);
}

static void* abort_here(void* unused) {
    (void)unused;
    abort();
}

static void abort_in_another_thread(void) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGABRT, SIG_DFL);
    start_training();
    CHECK_EQ(cep_flush(profiler, close_timeout_ms), CEP_OK);
    (void)cep_begin(cep_region_get(profiler, "backward", CEP_KIND_AUTO), CEP_HOST);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, abort_here, NULL), 0);
    for (;;) record_spans(profiler, "optimizer", 1);
}

TEST(abort_in_another_thread_ends_the_trainer_and_leaves_whole_lines) {
    const int status = check_in_child(abort_in_another_thread);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    const rows all = rows_read_leniently(RANK_FILE);  // the end of the process may have cut the last line
    CHECK_EQ(rows_spans_named(&all, "forward"), 100);
}
